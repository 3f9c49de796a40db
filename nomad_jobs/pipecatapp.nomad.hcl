# pipecatapp: agent, web page, workflows. Keys come from Nomad's variables at nomad/jobs/pipecatapp:
# api_key, service_key. Its state lies on the host volume hearth-state of one machine.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "machine" {
  type        = string
  default     = ""
  description = "The machine that holds its state; empty: any with the volume hearth-state."
}

variable "driver" {
  type        = string
  default     = "docker"
  description = "docker (our image) or raw_exec (the environment on the machine)."
}

variable "image" {
  type        = string
  default     = ""
  description = "The image that was loaded on the machine; for docker only."
}

variable "python" {
  type        = string
  default     = "/opt/hearth/current/venv/bin/python"
  description = "The Python that has Hearth installed; for raw_exec only."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as; for docker as numbers, uid:gid of the owner of the state."
}

variable "state_dir" {
  type        = string
  default     = "/var/lib/hearth/state"
  description = "Where the host volume hearth-state lies on the machine; for raw_exec only."
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
  default     = 8000
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder on the machine with ca.pem, service.pem and service-key.pem; empty: plain HTTP."
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

variable "model_roles" {
  type        = map(string)
  default     = { default = "auto" }
  description = "Model role named in workflows -> model of the gateway."
}

variable "code_job" {
  type        = string
  default     = "hearth-code"
  description = "The job that runs programs of workflows that say `where: nomad`."
}

variable "links" {
  type        = map(string)
  default     = {}
  description = "Name -> page of another program that the status page links to."
}

variable "drain_seconds" {
  type        = number
  default     = 20
  description = "How long runs under way may take when it stops; what is left goes on afterwards."
}

variable "memory_mb" {
  type        = number
  default     = 384
  description = "Memory that is set aside for it."
}

locals {
  docker = var.driver == "docker"
  scheme = var.tls_dir == "" ? "http" : "https"
  tls    = var.tls_dir == "" ? "" : local.docker ? "/tls" : var.tls_dir
  state  = local.docker ? "/state" : var.state_dir
  module = ["-P", "-m", "pipecatapp"]
  # The command of people, from inside of the task: with its keys, at its address.
  hearth = join(" ", [
    "HEARTH_CLUSTER_URL=${local.scheme}://$NOMAD_ADDR_http",
    "HEARTH_CLUSTER_KEY_FILE=$NOMAD_SECRETS_DIR/people",
    local.tls == "" ? "" : "HEARTH_CLUSTER_CA_FILE=${local.tls}/ca.pem",
    local.docker ? "python" : var.python,
    "-P -m hearth",
  ])
  hearth_status = "${local.hearth} status"
  hearth_backup = join(" ", [
    "umask 077 && mkdir -p ${local.state}/backups &&",
    local.hearth, "backup ${local.state}/backups/by-hand-$(date -u +%Y%m%dT%H%M%SZ).tar.gz",
  ])
}

job "pipecatapp" {
  type        = "service"
  datacenters = var.datacenters

  meta {
    hearth_version = var.version
  }

  # One at a time: the old one lets go of the ledger before the new one opens it.
  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "3s"
    healthy_deadline  = "3m"
    progress_deadline = "5m"
  }

  group "agent" {
    count = 1

    dynamic "constraint" {
      for_each = var.machine == "" ? [] : [var.machine]
      content {
        attribute = "${node.unique.name}"
        value     = constraint.value
      }
    }

    volume "state" {
      type   = "host"
      source = "hearth-state"
    }

    dynamic "volume" {
      for_each = var.tls_dir == "" ? [] : ["tls"]
      labels   = ["tls"]
      content {
        type      = "host"
        source    = "hearth-tls"
        read_only = true
      }
    }

    network {
      mode = "host"
      port "http" {
        static = var.port
      }
    }

    # Names point elsewhere before it begins to refuse.
    shutdown_delay = "2s"

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
    # Its state is on that machine, so nobody else can take its place.
    disconnect {
      lost_after = "24h"
      replace    = false
    }

    service {
      name     = "pipecatapp"
      provider = "consul"
      port     = "http"
      tags     = ["agent", "metrics"]
      meta {
        scheme         = local.scheme
        metrics_scheme = local.scheme
        hearth_version = var.version
      }
      check {
        name            = "ready"
        type            = "http"
        protocol        = local.scheme
        tls_skip_verify = local.scheme == "https"
        path            = "/health"
        interval        = "2s"
        timeout         = "2s"
        check_restart {
          limit = 10
          grace = "60s"
        }
      }
    }

    task "agent" {
      driver       = var.driver
      user         = var.user
      kill_signal  = "SIGTERM"
      kill_timeout = "${var.drain_seconds + 5}s"

      dynamic "config" {
        for_each = local.docker ? ["docker"] : []
        content {
          image           = var.image
          command         = "python"
          args            = local.module
          network_mode    = "host"
          readonly_rootfs = true
          cap_drop        = ["all"]
          security_opt    = ["no-new-privileges"]
        }
      }
      dynamic "config" {
        for_each = local.docker ? [] : ["raw_exec"]
        content {
          command = var.python
          args    = local.module
        }
      }

      dynamic "volume_mount" {
        for_each = local.docker ? concat(["state"], var.tls_dir == "" ? [] : ["tls"]) : []
        content {
          volume      = volume_mount.value
          destination = "/${volume_mount.value}"
          read_only   = volume_mount.value == "tls"
        }
      }

      # One-clicks of Nomad's page, and of `nomad action -job=pipecatapp`.
      action "status" {
        command = "/bin/sh"
        args    = ["-c", local.hearth_status]
      }
      action "backup" {
        command = "/bin/sh"
        args    = ["-c", local.hearth_backup]
      }

      consul {}

      # Nomad writes the token itself, too (consul_token), but for root's eyes.
      template {
        destination = "${NOMAD_SECRETS_DIR}/consul"
        data        = "{{ env \"CONSUL_HTTP_TOKEN\" }}"
        change_mode = "noop"
      }

      # For Nomad's API at the socket in the secrets: it shows machines and jobs on the status page.
      identity {
        file = true
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/people"
        data        = "{{ with nomadVar \"nomad/jobs/pipecatapp\" }}{{ .api_key }}{{ end }}"
        change_mode = "restart"
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/services"
        data        = "{{ with nomadVar \"nomad/jobs/pipecatapp\" }}{{ .service_key }}{{ end }}"
        change_mode = "restart"
      }

      env = merge(
        {
          PYTHONUNBUFFERED            = "1"
          PIPECATAPP_HOST             = var.listen
          PIPECATAPP_PORT             = "${NOMAD_PORT_http}"
          PIPECATAPP_STATE_DIR        = local.state
          PIPECATAPP_KEY_FILES        = "[\"${NOMAD_SECRETS_DIR}/people\", \"${NOMAD_SECRETS_DIR}/services\"]"
          PIPECATAPP_GATEWAY_KEY_FILE = "${NOMAD_SECRETS_DIR}/services"
          PIPECATAPP_CONSUL_URL       = var.consul_url
          PIPECATAPP_NOMAD_URL        = "unix://${NOMAD_SECRETS_DIR}/api.sock"
          PIPECATAPP_NOMAD_TOKEN_FILE = "${NOMAD_SECRETS_DIR}/nomad_token"
          PIPECATAPP_CODE_JOB         = var.code_job
          PIPECATAPP_CODE_URL         = "${local.scheme}://${NOMAD_ADDR_http}"
          PIPECATAPP_MODEL_ROLES      = jsonencode(var.model_roles)
          PIPECATAPP_LINKS            = jsonencode(var.links)
          PIPECATAPP_DRAIN_SECONDS    = "${var.drain_seconds}"
        },
        var.consul_acl ? { PIPECATAPP_CONSUL_TOKEN_FILE = "${NOMAD_SECRETS_DIR}/consul" } : {},
        local.tls == "" ? {} : {
          PIPECATAPP_TLS_CA_FILE   = "${local.tls}/ca.pem"
          PIPECATAPP_TLS_CERT_FILE = "${local.tls}/service.pem"
          PIPECATAPP_TLS_KEY_FILE  = "${local.tls}/service-key.pem"
        },
      )

      resources {
        cpu        = 300
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
