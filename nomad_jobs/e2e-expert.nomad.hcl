# e2e-expert: a scripted model that e2e-tests.yaml registers as the expert `e2e`, so that what "the
# model" asks for is known. It is never chosen for `auto`. The key comes from Nomad's variable at
# nomad/jobs/e2e-expert: expert_key.

variable "rules" {
  type        = string
  description = "What it answers, as JSON: see hearth/openai_api/scripted.py."
}

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "python" {
  type        = string
  default     = "/opt/hearth/current/venv/bin/python"
  description = "The Python that has Hearth installed."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as."
}

job "e2e-expert" {
  type        = "service"
  datacenters = var.datacenters

  group "expert" {
    network {
      mode = "host"
      port "api" {}
    }

    shutdown_delay = "1s"

    service {
      name     = "llama-expert-e2e"
      provider = "consul"
      port     = "api"
      tags     = ["expert"]
      meta {
        expert  = "e2e"
        model   = "scripted"
        auto    = "false"
        tools   = "native"
        slots   = "4"
        context = "8192"
      }
      check {
        name     = "answers"
        type     = "http"
        path     = "/health"
        interval = "2s"
        timeout  = "2s"
      }
    }

    task "model" {
      driver = "raw_exec"
      user   = var.user

      config {
        command = var.python
        args = [
          "-P", "-m", "hearth.openai_api.scripted", "${NOMAD_TASK_DIR}/rules.json",
          "--name", "e2e", "--host", "${NOMAD_IP_api}", "--port", "${NOMAD_PORT_api}",
          "--key-file", "${NOMAD_SECRETS_DIR}/key",
        ]
      }

      template {
        destination = "${NOMAD_TASK_DIR}/rules.json"
        data        = var.rules
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/key"
        data        = "{{ with nomadVar \"nomad/jobs/e2e-expert\" }}{{ .expert_key }}{{ end }}"
      }

      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}
