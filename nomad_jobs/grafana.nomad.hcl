# grafana: shows the figures of Prometheus. Data source and dashboards come with the job, so that any
# machine can run it; what people change by hand moves with it as long as its machine answers.
# The password of the user admin comes from Nomad's variable nomad/jobs/grafana: admin_password.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "image" {
  type        = string
  description = "The image, pinned by its digest."
}

variable "port" {
  type        = number
  default     = 3000
  description = "TCP port it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Path of service.pem and service-key.pem on the volume hearth-tls; empty: plain HTTP."
}

variable "tls_group" {
  type        = string
  default     = "0"
  description = "Number of the group that may read these files on the machine."
}

variable "prometheus_url" {
  type        = string
  default     = "http://prometheus.service.consul:9090"
  description = "Where Prometheus answers."
}

variable "ca_certificate" {
  type        = string
  default     = ""
  description = "Certificate (PEM) of the authority that Prometheus' certificate is checked against."
}

variable "scrape_interval" {
  type        = string
  default     = "15s"
  description = "How often Prometheus asks, as its configuration says."
}

variable "dashboards" {
  type        = map(string)
  default     = {}
  description = "Name -> JSON of each dashboard."
}

variable "anonymous" {
  type        = bool
  default     = false
  description = "Whether everybody in the network may look without signing in."
}

variable "memory_mb" {
  type        = number
  default     = 256
  description = "Memory that is set aside for it."
}

locals {
  scheme = var.tls_dir == "" ? "http" : "https"
  source = yamlencode({
    apiVersion = 1
    datasources = [{
      name      = "Prometheus"
      uid       = "prometheus"
      type      = "prometheus"
      access    = "proxy"
      url       = var.prometheus_url
      isDefault = true
      editable  = false
      jsonData = {
        httpMethod        = "POST"
        timeInterval      = var.scrape_interval
        tlsAuthWithCACert = var.ca_certificate != ""
      }
      secureJsonData = var.ca_certificate == "" ? {} : { tlsCACert = var.ca_certificate }
    }]
  })
  provider = yamlencode({
    apiVersion = 1
    providers = [{
      name           = "hearth"
      folder         = "Hearth"
      type           = "file"
      allowUiUpdates = false
      options        = { path = "/local/dashboards" }
    }]
  })
}

job "grafana" {
  type        = "service"
  datacenters = var.datacenters

  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "5s"
    healthy_deadline  = "5m"
    progress_deadline = "10m"
  }

  group "grafana" {
    count = 1

    constraint {
      attribute = "${meta.power_class}"
      operator  = "!="
      value     = "sleeps"
    }

    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 300
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
    reschedule {
      delay          = "10s"
      delay_function = "exponential"
      max_delay      = "5m"
      unlimited      = true
    }

    dynamic "volume" {
      for_each = var.tls_dir == "" ? [] : ["hearth-tls"]
      labels   = ["tls"]
      content {
        type      = "host"
        source    = volume.value
        read_only = true
      }
    }

    service {
      name     = "grafana"
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
        path            = "/api/health"
        interval        = "10s"
        timeout         = "3s"
        check_restart {
          limit = 5
          grace = "2m"
        }
      }
    }

    task "grafana" {
      driver       = "docker"
      kill_timeout = "20s"

      config {
        image        = var.image
        network_mode = "host"
        group_add    = [var.tls_group]
        cap_drop     = ["all"]
      }

      dynamic "volume_mount" {
        for_each = var.tls_dir == "" ? [] : ["tls"]
        content {
          volume      = volume_mount.value
          destination = "/tls"
          read_only   = true
        }
      }

      template {
        destination     = "local/provisioning/datasources/prometheus.yaml"
        data            = local.source
        left_delimiter  = "[%"
        right_delimiter = "%]"
      }
      template {
        destination     = "local/provisioning/dashboards/hearth.yaml"
        data            = local.provider
        left_delimiter  = "[%"
        right_delimiter = "%]"
      }
      dynamic "template" {
        for_each = var.dashboards
        content {
          destination     = "local/dashboards/${template.key}.json"
          data            = template.value
          left_delimiter  = "[%"
          right_delimiter = "%]"
        }
      }
      template {
        destination = "secrets/admin_password"
        data        = "{{ with nomadVar \"nomad/jobs/grafana\" }}{{ .admin_password }}{{ end }}"
        change_mode = "restart"
      }

      env = merge(
        {
          GF_PATHS_DATA                    = "/alloc/data"
          GF_PATHS_PROVISIONING            = "/local/provisioning"
          GF_SERVER_HTTP_PORT              = "${NOMAD_PORT_http}"
          GF_SERVER_PROTOCOL               = local.scheme
          GF_SECURITY_ADMIN_PASSWORD__FILE = "/secrets/admin_password"
          GF_AUTH_ANONYMOUS_ENABLED        = "${var.anonymous}"
          GF_AUTH_ANONYMOUS_ORG_ROLE       = "Viewer"
          GF_USERS_ALLOW_SIGN_UP           = "false"
          # Nothing of this cluster is told to anybody, and nothing is fetched.
          GF_ANALYTICS_REPORTING_ENABLED            = "false"
          GF_ANALYTICS_CHECK_FOR_UPDATES            = "false"
          GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES     = "false"
          GF_NEWS_NEWS_FEED_ENABLED                 = "false"
          GF_PLUGINS_PREINSTALL_DISABLED            = "true"
          GF_SECURITY_DISABLE_GRAVATAR              = "true"
          GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH = "/local/dashboards/hearth-cluster.json"
          GF_LOG_MODE                               = "console"
        },
        var.tls_dir == "" ? {} : {
          GF_SERVER_CERT_FILE = "/tls/service.pem"
          GF_SERVER_CERT_KEY  = "/tls/service-key.pem"
        },
      )

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
