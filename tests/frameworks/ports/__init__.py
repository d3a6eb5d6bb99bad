"""Ports of small models of PyTorch to other frameworks: weights copied exactly, and one fault to plant in each.

A port is recorded beside its reference without any ``rename=`` or ``layout=``. Where it says so it is modelled after an
example of the library's own; the code is written anew.
"""

from ports.equinox_ports import EQUINOX
from ports.keras_ports import KERAS
from ports.linen_ports import LINEN
from ports.nnx_ports import NNX

PORTS = {port.name: port for port in (*NNX, *LINEN, *EQUINOX, *KERAS)}
