# moe-gateway: one OpenAI address for all experts. Keys come from Nomad's variables at
# nomad/jobs/moe-gateway: api_key, service_key, expert_key.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "count" {
  type        = number
  default     = 1
  description = "On how many machines it runs; each of them answers. One where keys_machine is set."
}

variable "canaries" {
  type        = number
  default     = 0
  description = "New ones that must be healthy before an old one stops; needs a machine to spare, so none where keys_machine is set."
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
  default     = 8080
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder with ca.pem, service.pem and service-key.pem; empty: plain HTTP."
}

variable "consul_url" {
  type        = string
  default     = "http://127.0.0.1:8500"
  description = "The Consul agent of the machine."
}

variable "consul_acl" {
  type        = bool
  default     = true
  description = "Whether Consul demands a token; the job's identity then gets one."
}

variable "keys_machine" {
  type        = string
  default     = ""
  description = "The machine that keeps the keys that people make; empty: none are kept."
}

variable "power_url" {
  type        = string
  default     = ""
  description = "Address of the power manager, which wakes machines; empty: there is none."
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "More settings of the gateway, by their names in small letters without MOE_GATEWAY_; lists and objects are JSON."
}

variable "state_dir" {
  type        = string
  default     = "/var/lib/hearth/state"
  description = "Where the host volume hearth-state lies on that machine."
}

variable "drain_seconds" {
  type        = number
  default     = 20
  description = "How long answers under way may take when it stops."
}

variable "memory_mb" {
  type        = number
  default     = 160
  description = "Memory that is set aside for it."
}

locals {
  scheme = var.tls_dir == "" ? "http" : "https"

  # The machine that keeps keys has its port once: there is no second one, and no new one beside the old.
  bound    = var.keys_machine != ""
  count    = local.bound ? 1 : var.count
  canaries = local.bound ? 0 : var.canaries
}

job "moe-gateway" {
  type        = "service"
  datacenters = var.datacenters

  meta {
    hearth_version = var.version
  }

  update {
    max_parallel      = 1
    canary            = local.canaries
    auto_promote      = local.canaries > 0
    auto_revert       = true
    min_healthy_time  = "3s"
    healthy_deadline  = "2m"
    progress_deadline = "5m"
  }

  group "gateway" {
    count = local.count

    # It answers on one port of its machine, and on a machine that is awake.
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }
    constraint {
      attribute = "${meta.power_class}"
      operator  = "!="
      value     = "sleeps"
    }

    # What people have made, and what they have used, lies there and nowhere else.
    dynamic "constraint" {
      for_each = local.bound ? [var.keys_machine] : []
      content {
        attribute = "${node.unique.name}"
        value     = constraint.value
      }
    }

    dynamic "volume" {
      for_each = local.bound ? ["state"] : []
      labels   = ["state"]
      content {
        type   = "host"
        source = "hearth-state"
      }
    }

    network {
      mode = "host"
      port "http" {
        static = var.port
      }
    }

    # Names point elsewhere before it begins to refuse.
    shutdown_delay = "3s"

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
    disconnect {
      lost_after = "1m"
      replace    = true
      reconcile  = "best_score"
    }

    service {
      name     = "moe-gateway"
      provider = "consul"
      port     = "http"
      tags     = ["gateway", "metrics"]
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
        # Also without an expert: then it says what is missing, which no silence does.
        path     = "/health/live"
        interval = "2s"
        timeout  = "2s"
        check_restart {
          limit = 5
          grace = "30s"
        }
      }
    }

    task "gateway" {
      driver       = "raw_exec"
      user         = var.user
      kill_signal  = "SIGTERM"
      kill_timeout = "${var.drain_seconds + 5}s"

      config {
        command = var.python
        args    = ["-P", "-m", "moe_gateway"]
      }

      consul {}

      # Nomad writes the token itself, too (consul_token), but for root's eyes.
      template {
        destination = "${NOMAD_SECRETS_DIR}/consul"
        data        = "{{ env \"CONSUL_HTTP_TOKEN\" }}"
        change_mode = "noop"
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/people"
        data        = "{{ with nomadVar \"nomad/jobs/moe-gateway\" }}{{ .api_key }}{{ end }}"
        change_mode = "restart"
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/services"
        data        = "{{ with nomadVar \"nomad/jobs/moe-gateway\" }}{{ .service_key }}{{ end }}"
        change_mode = "restart"
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/experts"
        data        = "{{ with nomadVar \"nomad/jobs/moe-gateway\" }}{{ .expert_key }}{{ end }}"
        change_mode = "restart"
      }

      env = merge(
        {
          PYTHONUNBUFFERED            = "1"
          MOE_GATEWAY_HOST            = var.listen
          MOE_GATEWAY_PORT            = "${NOMAD_PORT_http}"
          MOE_GATEWAY_KEY_FILES       = "[\"${NOMAD_SECRETS_DIR}/people\", \"${NOMAD_SECRETS_DIR}/services\"]"
          MOE_GATEWAY_EXPERT_KEY_FILE = "${NOMAD_SECRETS_DIR}/experts"
          MOE_GATEWAY_AGENT_KEY_FILE  = "${NOMAD_SECRETS_DIR}/services"
          MOE_GATEWAY_SPEECH_KEY_FILE = "${NOMAD_SECRETS_DIR}/services"
          MOE_GATEWAY_CONSUL_URL      = var.consul_url
          MOE_GATEWAY_DRAIN_SECONDS   = "${var.drain_seconds}"
        },
        { for name, value in var.settings : "MOE_GATEWAY_${upper(name)}" => value },
        var.power_url == "" ? {} : {
          MOE_GATEWAY_POWER_URL      = var.power_url
          MOE_GATEWAY_POWER_KEY_FILE = "${NOMAD_SECRETS_DIR}/services"
        },
        local.bound ? { MOE_GATEWAY_KEY_STORE = "${var.state_dir}/keys.db" } : {},
        var.consul_acl ? { MOE_GATEWAY_CONSUL_TOKEN_FILE = "${NOMAD_SECRETS_DIR}/consul" } : {},
        var.tls_dir == "" ? {} : {
          MOE_GATEWAY_TLS_CA_FILE   = "${var.tls_dir}/ca.pem"
          MOE_GATEWAY_TLS_CERT_FILE = "${var.tls_dir}/service.pem"
          MOE_GATEWAY_TLS_KEY_FILE  = "${var.tls_dir}/service-key.pem"
        },
      )

      resources {
        cpu        = 200
        memory     = var.memory_mb
        memory_max = var.memory_mb * 4
      }

      logs {
        max_files     = 3
        max_file_size = 10
      }
    }
  }
}
