"""Tools that read the web, and the policy of the addresses that they may connect to."""
