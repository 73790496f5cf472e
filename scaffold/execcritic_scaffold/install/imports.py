"""Import names whose distribution has another name: what to install where one is missing."""

from __future__ import annotations

_DISTRIBUTIONS = {
    "attr": "attrs", "bs4": "beautifulsoup4", "Crypto": "pycryptodome", "cv2": "opencv-python", "dateutil":
    "python-dateutil", "dotenv": "python-dotenv", "fitz": "PyMuPDF", "git": "GitPython", "github": "PyGithub",
    "google": "protobuf", "grpc": "grpcio", "jose": "python-jose", "jwt": "PyJWT", "ldap": "python-ldap",
    "magic": "python-magic", "multipart": "python-multipart", "MySQLdb": "mysqlclient", "OpenSSL": "pyOpenSSL",
    "PIL": "pillow", "pkg_resources": "setuptools<81", "psycopg2": "psycopg2-binary", "rest_framework":
    "djangorestframework", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image", "sklearn":
    "scikit-learn", "slugify": "python-slugify", "socks": "PySocks", "usb": "pyusb", "win32api": "pywin32",
    "yaml": "PyYAML", "zmq": "pyzmq", "zope": "zope.interface",
}  # fmt: skip


def distribution(module: str) -> str:
    """The distribution that most likely holds a top-level module; the same name where nothing else is known."""
    return _DISTRIBUTIONS.get(module, module.replace("_", "-"))
