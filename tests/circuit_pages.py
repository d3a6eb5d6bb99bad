"""The data of a page that shows a circuit, as its scripts read it."""

import base64
import gzip
import json
import re

import pytest


def recorded(text):
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    zipped = base64.b64decode(json.loads(found)["circuit"])
    return json.loads(gzip.decompress(zipped), parse_constant=pytest.fail)
