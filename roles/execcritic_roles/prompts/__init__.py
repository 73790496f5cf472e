"""What the agents are told: one YAML of jinja2 templates per role, one for the notices both get.

`render` fills them.
"""
