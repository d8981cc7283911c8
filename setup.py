"""Installs bert_tf where a tool asks for this file; see pyproject.toml."""

import setuptools

setuptools.setup()
