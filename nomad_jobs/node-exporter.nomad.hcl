# node-exporter: the figures of every machine, for Prometheus.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it runs: on every machine there."
}

variable "program" {
  type        = string
  default     = "/usr/local/bin/node_exporter"
  description = "The program on the machine."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as."
}

variable "port" {
  type        = number
  default     = 9100
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder with service.pem and service-key.pem; empty: plain HTTP."
}

locals {
  scheme = var.tls_dir == "" ? "http" : "https"
  web = var.tls_dir == "" ? "{}\n" : yamlencode({
    tls_server_config = {
      cert_file = "${var.tls_dir}/service.pem"
      key_file  = "${var.tls_dir}/service-key.pem"
    }
  })
}

job "node-exporter" {
  type        = "system"
  datacenters = var.datacenters

  update {
    max_parallel     = 1
    min_healthy_time = "3s"
    healthy_deadline = "1m"
    auto_revert      = true
  }

  group "exporter" {
    network {
      mode = "host"
      port "http" {
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
    # What is cut off goes on, and is known again when the cable is back: nothing could run in its place,
    # and what Nomad placed anew while that machine's Consul had no leader would have failed for good.
    disconnect {
      lost_after = "24h"
      replace    = false
    }

    service {
      name     = "node-exporter"
      provider = "consul"
      port     = "http"
      tags     = ["metrics"]
      meta {
        scheme         = local.scheme
        metrics_scheme = local.scheme
      }
      check {
        name            = "answers"
        type            = "http"
        protocol        = local.scheme
        tls_skip_verify = local.scheme == "https"
        path            = "/"
        interval        = "2s"
        timeout         = "2s"
        check_restart {
          limit = 15
          grace = "30s"
        }
      }
    }

    task "exporter" {
      driver = "raw_exec"
      user   = var.user

      config {
        command = var.program
        args = [
          "--web.listen-address=${NOMAD_ADDR_http}",
          "--web.config.file=${NOMAD_TASK_DIR}/web.yaml",
          # Distributions let it look in a folder that only their package makes: an error each scrape.
          "--no-collector.textfile",
          # What comes and goes with containers and allocations says nothing of the machine.
          "--collector.filesystem.mount-points-exclude=^/(dev|proc|run|sys|var/lib/(docker|nomad|containers))($|/)",
          "--collector.netclass.ignored-devices=^(veth.*|docker.*|br-.*)$",
          "--collector.netdev.device-exclude=^(veth.*|docker.*|br-.*)$",
        ]
      }

      template {
        destination = "${NOMAD_TASK_DIR}/web.yaml"
        data        = local.web
        change_mode = "restart"
      }

      resources {
        cpu        = 50
        memory     = 32
        memory_max = 128
      }

      logs {
        max_files     = 2
        max_file_size = 5
      }
    }
  }
}
