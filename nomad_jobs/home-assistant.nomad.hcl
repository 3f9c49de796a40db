# home-assistant: Home Assistant in a container. Its configuration and state are on a host volume of one
# machine, which the role home_assistant registers. It starts after the MQTT broker has answered.

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

variable "command" {
  type        = list(string)
  default     = ["/init"]
  description = "The program of the image with its arguments."
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

variable "memory_mb" {
  type        = number
  default     = 1024
  description = "Memory that is set aside for it."
}

locals {
  # Nomad runs a prestart task for a new allocation only, not when the machine boots. So the container
  # itself waits, before each start, and then becomes the program of the image.
  wait = <<-WAIT
    import os, signal, socket, sys, time
    host, port, *command = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"Waiting for the MQTT broker at {host}, port {port}.", flush=True)
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            break
        except OSError:
            time.sleep(1)
    print("The MQTT broker answers.", flush=True)
    os.execvp(command[0], command)
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

    task "home-assistant" {
      driver       = "docker"
      kill_timeout = "30s"

      config {
        image        = var.image
        entrypoint   = ["python3", "-c", local.wait]
        args         = concat([var.mqtt_host, "${var.mqtt_port}"], var.command)
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
