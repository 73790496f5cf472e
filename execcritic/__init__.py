"""The application: command line, configuration, issue intake, runs on disk. May import roles and scaffold."""

__version__ = "0.1.0"
