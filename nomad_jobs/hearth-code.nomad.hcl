# hearth-code: one program of a workflow that says `where: nomad`, in the sandbox of the machine that
# Nomad chooses. pipecatapp dispatches it; the payload opens one errand, and everything else travels
# between this worker and pipecatapp. The machine needs bubblewrap.

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
  description = "Who it runs as; the sandbox wants an ordinary user, or root where it may make cgroups."
}

variable "cpu" {
  type        = number
  default     = 500
  description = "MHz to reserve for a program."
}

variable "memory_mb" {
  type        = number
  default     = 1024
  description = "MiB to reserve for a program; its own limit is `memory_mb` of code.run."
}

job "hearth-code" {
  type        = "batch"
  datacenters = var.datacenters

  parameterized {
    payload = "required"
  }

  group "code" {
    # A program that was cut off is run again by the workflow, which knows whether that may be.
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "program" {
      driver = "raw_exec"
      user   = var.user

      dispatch_payload {
        file = "errand.json"
      }

      config {
        command = var.python
        args    = ["-P", "-m", "pipecatapp.sandbox.worker", "${NOMAD_TASK_DIR}/errand.json"]
      }

      resources {
        cpu    = var.cpu
        memory = var.memory_mb
      }
    }
  }
}
