"""How rounds and queries grow with the length: settings, measurements, slopes, tables, the figure."""
