# power-manager: lets machines sleep, and wakes them. The keys come from Nomad's variable
# nomad/jobs/power-manager: service_key for the gateway and the machines, api_key for people.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Datacenters in which it may run."
}

variable "machine" {
  type        = string
  description = "The machine it runs on: one that is always on, in the network of those that sleep."
}

variable "python" {
  type        = string
  default     = "/opt/hearth/current/venv/bin/python"
  description = "The Python that has Hearth installed."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "The user of its process."
}

variable "version" {
  type        = string
  default     = ""
  description = "Version of Hearth; a new one is a new deployment."
}

variable "listen" {
  type        = string
  default     = "0.0.0.0"
  description = "Address it listens on."
}

variable "port" {
  type        = number
  default     = 8094
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder with ca.pem, service.pem and service-key.pem; empty: plain HTTP."
}

variable "machines" {
  type        = string
  default     = "[]"
  description = "The machines that may sleep, as the JSON list POWER_MANAGER_MACHINES."
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "More settings, by their names in small letters without POWER_MANAGER_."
}

variable "state_dir" {
  type        = string
  default     = "/var/lib/hearth/state"
  description = "Folder for the measured wake times and the holds."
}

locals {
  scheme = var.tls_dir == "" ? "http" : "https"
}

job "power-manager" {
  type        = "service"
  datacenters = var.datacenters

  meta {
    hearth_version = var.version
  }

  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "3s"
    healthy_deadline  = "1m"
    progress_deadline = "3m"
  }

  group "manager" {
    constraint {
      attribute = "${node.unique.name}"
      value     = var.machine
    }

    network {
      mode = "host"
      port "http" {
        static = var.port
      }
    }

    restart {
      attempts = 3
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }
    reschedule {
      delay          = "5s"
      delay_function = "exponential"
      max_delay      = "2m"
      unlimited      = true
    }

    service {
      name     = "power-manager"
      provider = "consul"
      port     = "http"
      tags     = ["metrics"]
      meta {
        scheme         = local.scheme
        metrics_scheme = local.scheme
        hearth_version = var.version
      }
      check {
        name            = "answers"
        type            = "http"
        protocol        = local.scheme
        tls_skip_verify = local.scheme == "https"
        path            = "/health"
        interval        = "2s"
        timeout         = "2s"
        check_restart {
          limit = 5
          grace = "30s"
        }
      }
    }

    task "manager" {
      driver       = "raw_exec"
      user         = var.user
      kill_signal  = "SIGTERM"
      kill_timeout = "10s"

      config {
        command = var.python
        args    = ["-P", "-m", "power_manager"]
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/services"
        data        = "{{ with nomadVar \"nomad/jobs/power-manager\" }}{{ .service_key }}{{ end }}"
        change_mode = "restart"
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/people"
        data        = "{{ with nomadVar \"nomad/jobs/power-manager\" }}{{ .api_key }}{{ end }}"
        change_mode = "restart"
      }

      env = merge(
        {
          PYTHONUNBUFFERED         = "1"
          POWER_MANAGER_HOST       = var.listen
          POWER_MANAGER_PORT       = "${NOMAD_PORT_http}"
          POWER_MANAGER_KEY_FILES  = "[\"${NOMAD_SECRETS_DIR}/services\", \"${NOMAD_SECRETS_DIR}/people\"]"
          POWER_MANAGER_MACHINES   = var.machines
          POWER_MANAGER_STATE_FILE = "${var.state_dir}/wake-times.json"
        },
        { for name, value in var.settings : "POWER_MANAGER_${upper(name)}" => value },
        var.tls_dir == "" ? {} : {
          POWER_MANAGER_TLS_CERT_FILE = "${var.tls_dir}/service.pem"
          POWER_MANAGER_TLS_KEY_FILE  = "${var.tls_dir}/service-key.pem"
        },
      )

      resources {
        cpu        = 50
        memory     = 96
        memory_max = 192
      }

      logs {
        max_files     = 2
        max_file_size = 5
      }
    }
  }
}
