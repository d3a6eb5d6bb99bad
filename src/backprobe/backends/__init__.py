"""One folder for each framework. Nothing outside a framework's folder imports that framework."""
