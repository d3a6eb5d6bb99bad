"""One folder for each framework. The other modules and folders import no framework by name."""
