# mosquitto: the MQTT broker of the home. Its clients and their passwords come from Nomad's variable
# nomad/jobs/mosquitto: one item per client. The role mosquitto renders the configuration and the ACL.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "machine" {
  type        = string
  default     = ""
  description = "The machine that holds its data; empty: any."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "User that runs it."
}

variable "port" {
  type        = number
  default     = 8883
  description = "TCP port it listens on, as in its configuration."
}

variable "tls" {
  type        = bool
  default     = false
  description = "Whether its configuration names a certificate."
}

variable "config" {
  type        = string
  description = "mosquitto.conf, as the role mosquitto renders it."
}

variable "acl" {
  type        = string
  description = "The access rules of all clients, as the role mosquitto renders them."
}

variable "memory_mb" {
  type        = number
  default     = 32
  description = "Memory that is set aside for it."
}

locals {
  # The broker knows only hashes; it ends when one of these commands fails.
  start = join(" && ", [
    "umask 077",
    "cp secrets/clients secrets/passwords",
    "mosquitto_passwd -U secrets/passwords",
    "exec mosquitto -c local/mosquitto.conf",
  ])
}

job "mosquitto" {
  type        = "service"
  datacenters = var.datacenters

  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "2s"
    healthy_deadline  = "2m"
    progress_deadline = "5m"
  }

  group "broker" {
    count = 1

    # A machine that sleeps would miss what sensors publish.
    constraint {
      attribute = "${meta.power_class}"
      operator  = "!="
      value     = "sleeps"
    }
    dynamic "constraint" {
      for_each = var.machine == "" ? [] : [var.machine]
      content {
        attribute = "${node.unique.name}"
        value     = constraint.value
      }
    }

    network {
      mode = "host"
      port "mqtt" {
        static = var.port
      }
    }

    shutdown_delay = "1s"

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
    # Its data is on that machine, so no other one can take its place.
    disconnect {
      lost_after = "24h"
      replace    = false
    }

    service {
      name     = "mosquitto"
      provider = "consul"
      port     = "mqtt"
      tags     = ["mqtt"]
      meta {
        scheme = var.tls ? "mqtts" : "mqtt"
      }
      check {
        name     = "listens"
        type     = "tcp"
        interval = "5s"
        timeout  = "2s"
        check_restart {
          limit = 6
          grace = "30s"
        }
      }
    }

    task "broker" {
      driver       = "raw_exec"
      user         = var.user
      kill_timeout = "20s"

      config {
        command = "/bin/sh"
        args    = ["-c", local.start]
      }

      env {
        PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/clients"
        data        = "{{ with nomadVar \"nomad/jobs/mosquitto\" }}{{ range .Tuples }}{{ .K }}:{{ .V }}\n{{ end }}{{ end }}"
        change_mode = "restart"
      }
      template {
        destination     = "${NOMAD_TASK_DIR}/acl"
        data            = var.acl
        left_delimiter  = "[%"
        right_delimiter = "%]"
        change_mode     = "restart"
      }
      template {
        destination     = "${NOMAD_TASK_DIR}/mosquitto.conf"
        data            = var.config
        left_delimiter  = "[%"
        right_delimiter = "%]"
        change_mode     = "restart"
      }

      resources {
        cpu        = 50
        memory     = var.memory_mb
        memory_max = var.memory_mb * 4
      }

      logs {
        max_files     = 2
        max_file_size = 5
      }
    }
  }
}
