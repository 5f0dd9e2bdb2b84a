"""Storage of other packages, kept by annals. Each module needs the package that it is named after."""
