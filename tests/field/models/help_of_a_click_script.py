# from: https://click.palletsprojects.com/en/stable/quickstart/
# ask: explain PROGRAM --help
# exit: 0
# says: Usage:
# says: --rate
# never: BadOption|Traceback|error
import click
import torch


@click.command()
@click.option("--rate", default=0.1, help="The learning rate.")
def main(rate):
    """Train a line."""
    line = torch.nn.Linear(1, 1)
    loss = line(torch.ones(4, 1)).square().mean()
    loss.backward()
    torch.optim.SGD(line.parameters(), lr=rate).step()


if __name__ == "__main__":
    main()
