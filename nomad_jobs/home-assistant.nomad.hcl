# home-assistant: Home Assistant in a container. Its configuration and state are on a host volume of one
# machine, which the role home_assistant registers. It starts when the MQTT broker answers.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "machine" {
  type        = string
  default     = ""
  description = "The machine that holds its configuration; empty: any with the volume."
}

variable "image" {
  type        = string
  description = "The container image."
}

variable "volume" {
  type        = string
  default     = "home-assistant"
  description = "The host volume with its configuration and state."
}

variable "port" {
  type        = number
  default     = 8123
  description = "TCP port it listens on, as its own configuration says."
}

variable "mqtt_host" {
  type        = string
  default     = "mosquitto.service.consul"
  description = "Name or address of the MQTT broker. A name in Consul has an address while the broker is healthy."
}

variable "mqtt_port" {
  type        = number
  default     = 8883
  description = "TCP port of the MQTT broker."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "User that waits for the broker."
}

variable "memory_mb" {
  type        = number
  default     = 1024
  description = "Memory that is set aside for it."
}

locals {
  wait = <<-WAIT
    echo "Waiting for the MQTT broker at $MQTT_HOST, port $MQTT_PORT."
    until (exec 3<>"/dev/tcp/$MQTT_HOST/$MQTT_PORT") 2>/dev/null; do sleep 1; done
    echo "The MQTT broker answers."
  WAIT
}

job "home-assistant" {
  type        = "service"
  datacenters = var.datacenters

  # One at a time: the old one closes its database before the new one opens it.
  update {
    max_parallel      = 1
    auto_revert       = true
    min_healthy_time  = "5s"
    healthy_deadline  = "20m"
    progress_deadline = "25m"
  }

  group "home" {
    count = 1

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

    volume "config" {
      type            = "host"
      source          = var.volume
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    # It discovers devices by broadcasts, which reach only the machine's own network.
    network {
      mode = "host"
      port "http" {
        static = var.port
      }
    }

    shutdown_delay = "1s"

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
    # Its state is on that machine, so no other one can take its place.
    disconnect {
      lost_after = "24h"
      replace    = false
    }

    service {
      name     = "home-assistant"
      provider = "consul"
      port     = "http"
      meta {
        scheme = "http"
      }
      check {
        name     = "answers"
        type     = "http"
        path     = "/manifest.json"
        interval = "5s"
        timeout  = "3s"
        check_restart {
          limit = 12
          # It migrates its database at the first start of a new version.
          grace = "10m"
        }
      }
    }

    task "wait-for-mqtt" {
      driver = "raw_exec"
      user   = var.user

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      config {
        command = "/bin/bash"
        args    = ["-c", local.wait]
      }

      env {
        MQTT_HOST = var.mqtt_host
        MQTT_PORT = "${var.mqtt_port}"
      }

      resources {
        cpu    = 20
        memory = 16
      }

      logs {
        max_files     = 1
        max_file_size = 1
      }
    }

    task "home-assistant" {
      driver       = "docker"
      kill_timeout = "30s"

      config {
        image        = var.image
        network_mode = "host"
      }

      volume_mount {
        volume      = "config"
        destination = "/config"
      }

      resources {
        cpu        = 500
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
