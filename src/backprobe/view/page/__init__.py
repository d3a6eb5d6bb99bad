"""The files of the page: its style and scripts as browsers read them, and the libraries that it is made with."""
