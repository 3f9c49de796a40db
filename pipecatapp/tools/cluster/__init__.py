"""Tools that look at the machines, services and experts. Nothing here changes them."""
