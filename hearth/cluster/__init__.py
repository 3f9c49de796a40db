"""The cluster: typed clients of Nomad and Consul, and what is built on them."""
