"""The options with which every module of ours names an agent of Consul or Nomad."""


class ModuleDocFragment:
    """`extends_documentation_fragment: [endpoint]`"""

    DOCUMENTATION = """
    options:
      url:
        description: Where the agent answers, for example C(https://10.0.0.11:4646).
        type: str
        required: true
      token:
        description: The token of its access control. No variable of the environment replaces it.
        type: str
      ca_file:
        description: The only authority whose certificates are trusted; without it, the system's.
        type: path
      cert_file:
        description: Certificate to show to an agent that asks for one.
        type: path
      key_file:
        description: The private key of O(cert_file).
        type: path
      timeout:
        description: Seconds after which a request that got no answer has failed.
        type: float
        default: 10.0
      leader_timeout:
        description:
          - Seconds to ask again while the servers have no leader, as while one is restarted.
        type: float
        default: 120.0
    requirements: [The controller's own environment (C(ansible_playbook_python)).]
    attributes:
      check_mode:
        support: full
        description: Tells what would be written, and writes nothing.
      diff_mode:
        support: full
        description: Shows both sides of what is written, without secrets.
    """
