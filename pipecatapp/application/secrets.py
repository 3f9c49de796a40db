"""Values of the secrets that projects name; read from files and the environment, never sent."""

from pipecatapp.records.secrets import SecretMissing, Secrets

__all__ = ["SecretMissing", "Secrets"]
