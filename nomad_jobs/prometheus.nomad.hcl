# prometheus: keeps the figures of all services and machines, and raises alerts.
# It finds what there is to scrape in Consul: every service with the tag `metrics` (at the path and
# scheme that its meta metrics_path and metrics_scheme name), every expert, and the agents of Consul
# and Nomad. The experts' key comes from Nomad's variable nomad/jobs/prometheus: expert_key.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "machine" {
  type        = string
  default     = ""
  description = "The machine that keeps its data; empty: any."
}

variable "program" {
  type        = string
  default     = "/usr/local/bin/prometheus"
  description = "The program on the machine."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as."
}

variable "data_dir" {
  type        = string
  default     = "/var/lib/hearth/prometheus"
  description = "Where it keeps the figures; belongs to the user."
}

variable "port" {
  type        = number
  default     = 9090
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder with ca.pem, service.pem and service-key.pem; empty: plain HTTP."
}

variable "consul_port" {
  type        = number
  default     = 8500
  description = "Port at which the agents of Consul answer each other's machines."
}

variable "config" {
  type        = string
  description = "prometheus.yaml, as the role prometheus renders it."
}

variable "rules" {
  type        = string
  description = "rules.yaml of the role prometheus."
}

variable "retention_time" {
  type        = string
  default     = "30d"
  description = "How long figures are kept."
}

variable "retention_size" {
  type        = string
  default     = "10GB"
  description = "How much they may take on disk; the oldest go first."
}

variable "memory_mb" {
  type        = number
  default     = 256
  description = "Memory that is set aside for it."
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

job "prometheus" {
  type        = "service"
  datacenters = var.datacenters

  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "3s"
    healthy_deadline  = "5m"
    progress_deadline = "10m"
  }

  group "prometheus" {
    count = 1

    # A machine that sleeps would miss the night.
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
      port "http" {
        static = var.port
      }
    }

    shutdown_delay = "2s"

    restart {
      attempts = 3
      interval = "10m"
      delay    = "10s"
      mode     = "delay"
    }

    service {
      name     = "prometheus"
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
        path            = "/-/ready"
        interval        = "2s"
        timeout         = "2s"
        check_restart {
          limit = 12
          # It reads back what it had not yet written into a block.
          grace = "5m"
        }
      }
    }

    task "prometheus" {
      driver       = "raw_exec"
      user         = var.user
      kill_timeout = "30s"

      config {
        command = var.program
        args = [
          "--config.file=${NOMAD_TASK_DIR}/prometheus.yaml",
          "--web.config.file=${NOMAD_TASK_DIR}/web.yaml",
          "--web.listen-address=0.0.0.0:${NOMAD_PORT_http}",
          "--storage.tsdb.path=${var.data_dir}",
          "--storage.tsdb.retention.time=${var.retention_time}",
          "--storage.tsdb.retention.size=${var.retention_size}",
        ]
      }

      consul {}

      template {
        destination     = "${NOMAD_TASK_DIR}/prometheus.yaml"
        data            = var.config
        left_delimiter  = "[%"
        right_delimiter = "%]"
      }
      template {
        destination     = "${NOMAD_TASK_DIR}/rules.yaml"
        data            = var.rules
        left_delimiter  = "[%"
        right_delimiter = "%]"
      }
      template {
        destination = "${NOMAD_TASK_DIR}/web.yaml"
        data        = local.web
        change_mode = "restart"
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/expert_key"
        data        = "{{ with nomadVar \"nomad/jobs/prometheus\" }}{{ .expert_key }}{{ end }}"
        change_mode = "noop"
      }
      # Nomad's own file of the token is for root only.
      template {
        destination = "${NOMAD_SECRETS_DIR}/consul_key"
        data        = "{{ env \"CONSUL_TOKEN\" }}"
        change_mode = "noop"
      }

      # Prometheus sees these files change. Also what is not healthy is scraped: it is down.
      template {
        destination = "${NOMAD_TASK_DIR}/targets/services.yaml"
        change_mode = "noop"
        data        = <<-TARGETS
          [
          {{- range services }}{{ if .Tags | contains "metrics" }}
          {{- range service (print .Name "|any") }}
          {{- if and (.Tags | contains "metrics") (not (.Tags | contains "expert")) }}
          {"targets": ["{{ .Address }}:{{ .Port }}"], "labels": {
            "job": {{ .Name | toJSON }}, "node": {{ .Node | toJSON }},
            "expert": {{ or (index .ServiceMeta "expert") "" | toJSON }},
            "__metrics_path__": {{ or (index .ServiceMeta "metrics_path") "/metrics" | toJSON }},
            "__scheme__": {{ or (index .ServiceMeta "metrics_scheme") "http" | toJSON }}}},
          {{- end }}{{ end }}{{ end }}{{ end }}
          ]
        TARGETS
      }
      template {
        destination = "${NOMAD_TASK_DIR}/targets/experts.yaml"
        change_mode = "noop"
        data        = <<-TARGETS
          [
          {{- range services }}{{ if .Tags | contains "expert" }}
          {{- range service (print .Name "|any") }}
          {"targets": ["{{ .Address }}:{{ .Port }}"], "labels": {
            "node": {{ .Node | toJSON }},
            "expert": {{ or (index .ServiceMeta "expert") .Name | toJSON }},
            "model": {{ or (index .ServiceMeta "model") "" | toJSON }},
            "__metrics_path__": {{ or (index .ServiceMeta "metrics_path") "/metrics" | toJSON }},
            "__scheme__": {{ or (index .ServiceMeta "metrics_scheme") "http" | toJSON }}}},
          {{- end }}{{ end }}{{ end }}
          ]
        TARGETS
      }
      template {
        destination = "${NOMAD_TASK_DIR}/targets/nomad.yaml"
        change_mode = "noop"
        # A machine that is server and client answers for both at one address: it is one target.
        data = <<-TARGETS
          [
          {{- range service "http.nomad|any" }}
          {"targets": ["{{ .Address }}:{{ .Port }}"], "labels": {"node": {{ .Node | toJSON }}}},
          {{- end }}
          {{- range service "http.nomad-client|any" }}
          {"targets": ["{{ .Address }}:{{ .Port }}"], "labels": {"node": {{ .Node | toJSON }}}},
          {{- end }}
          ]
        TARGETS
      }
      template {
        destination = "${NOMAD_TASK_DIR}/targets/consul.yaml"
        change_mode = "noop"
        data        = <<-TARGETS
          [
          {{- range nodes }}
          {"targets": ["{{ .Address }}:${var.consul_port}"], "labels": {"node": {{ .Node | toJSON }}}},
          {{- end }}
          ]
        TARGETS
      }

      resources {
        cpu        = 200
        memory     = var.memory_mb
        memory_max = var.memory_mb * 4
      }

      logs {
        max_files     = 2
        max_file_size = 10
      }
    }
  }
}
