"""One folder for each framework. The modules beside these folders import no framework by name."""
