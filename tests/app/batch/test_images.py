"""What images are called: the table, the packages' own functions where they are installed, mirrors."""

from __future__ import annotations

import platform

import pytest

from execcritic.batch import images
from execcritic.batch.images import Architecture, ImageSettings, by_table, from_registry, is_name, published

NAMES: list[tuple[str, Architecture, str, str]] = [
    ("django__django-11099", "x86_64", "latest", "ns/sweb.eval.x86_64.django_1776_django-11099:latest"),
    ("PyCQA__Flake8-1", "x86_64", "v1", "ns/sweb.eval.x86_64.pycqa_1776_flake8-1:v1"),
    ("a__b__c-1", "arm64", "latest", "ns/sweb.eval.arm64.a_1776_b_1776_c-1:latest"),
    ("scikit-learn__scikit-learn-1", "arm64", "v1", "ns/sweb.eval.arm64.scikit-learn_1776_scikit-learn-1:v1"),
]


@pytest.mark.parametrize(("instance", "architecture", "tag", "name"), NAMES)
def test_the_naming_rule(instance: str, architecture: Architecture, tag: str, name: str) -> None:
    """The installed `swebench`, if any, is asked by `published`: the two must agree."""
    assert by_table(instance, "ns", architecture, tag) == name
    assert published(instance, "ns", ImageSettings(architecture=architecture, tag=tag)) == name
    assert is_name(name)


@pytest.mark.parametrize(("machine", "named"), [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64")])
def test_the_architecture_is_this_machines(machine: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert ImageSettings().wanted == named
    assert ImageSettings(architecture="arm64").wanted == "arm64"


@pytest.mark.parametrize(
    ("name", "registry", "other"),
    [
        ("swebench/x:latest", None, "swebench/x:latest"),
        ("swebench/x:latest", "localhost:5000", "localhost:5000/swebench/x:latest"),
        ("docker.io/swebench/x", "mirror.example/hub/", "mirror.example/hub/swebench/x"),
        ("localhost/x", "r:1", "r:1/x"),
        ("ghcr.io/a/b@sha256:" + "0" * 64, "r:1", "r:1/a/b@sha256:" + "0" * 64),
        ("plain:tag", "r:1", "r:1/plain:tag"),
    ],
)
def test_the_same_image_in_another_registry(name: str, registry: str | None, other: str) -> None:
    assert from_registry(name, registry) == other


@pytest.mark.parametrize(
    "text", ["", "a/B", "a b", "-v", "a/../b", "a:b:c", "a//b", "x@sha256:0", "a\n", "é", "a" * 600]
)
def test_what_is_no_name(text: str) -> None:
    assert not is_name(text)


def test_the_installed_package_is_asked() -> None:
    pytest.importorskip("swebench")
    assert images._official() is not None
