"""A run's grid as the scalars of TensorBoard, in its environment.

python -m peers.tensorboard_events GRID.npz FOLDER
"""

import sys

import numpy
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def main(grid: str, folder: str) -> None:
    held = numpy.load(grid)
    writer = EventFileWriter(folder)
    for at, step in enumerate(held["steps"].tolist()):
        for name, number in zip(held["names"].tolist(), held["grid"][:, at].tolist(), strict=True):
            value = Summary.Value(tag=f"grad.rms/{name}", simple_value=number)
            writer.add_event(Event(step=step, wall_time=1.7e9 + step, summary=Summary(value=[value])))
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
