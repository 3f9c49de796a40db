# llama-rpc: on every machine, a process that computes a part of a model for an expert elsewhere.
# It knows no key: it listens on the mesh's address alone, and the firewall lets the machines of the
# cluster in, nobody else.

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it runs."
}

variable "machines" {
  type        = list(string)
  default     = []
  description = "Names of the machines that lend their memory; empty: all."
}

variable "rpc_server" {
  type        = string
  default     = "/opt/hearth/llama.cpp/current/bin/ggml-rpc-server"
  description = "The compiled program."
}

variable "threads" {
  type        = number
  default     = 0
  description = "Processor threads; 0: half of the processors."
}

variable "log_work" {
  type        = bool
  default     = false
  description = "Whether its log tells of every graph of layers that it computes."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as."
}

variable "version" {
  type        = string
  default     = ""
  description = "Version of the engine; a new one is a new deployment."
}

variable "memory_mb" {
  type        = number
  default     = 64
  description = "Memory that is set aside for it; it takes none until an expert asks."
}

variable "memory_max_mb" {
  type        = number
  default     = -1
  description = "Memory that it may take where there is some; -1: no limit."
}

job "llama-rpc" {
  type        = "system"
  datacenters = var.datacenters

  meta {
    hearth_version = var.version
  }

  update {
    max_parallel     = 1
    min_healthy_time = "3s"
    healthy_deadline = "2m"
    auto_revert      = true
  }

  group "worker" {
    constraint {
      attribute = "${node.unique.name}"
      operator  = "regexp"
      value     = length(var.machines) == 0 ? "." : "^(${join("|", var.machines)})$"
    }

    network {
      mode = "host"
      port "rpc" {}
    }

    # Experts hear of it before it goes.
    shutdown_delay = "3s"

    restart {
      attempts = 5
      interval = "5m"
      delay    = "2s"
      mode     = "delay"
    }
    # What is cut off goes on, and is known again when the cable is back: nothing could run in its place,
    # and what Nomad placed anew while that machine's Consul had no leader would have failed for good.
    disconnect {
      lost_after = "24h"
      replace    = false
    }

    service {
      name     = "llama-rpc"
      provider = "consul"
      port     = "rpc"
      meta {
        scheme         = "tcp"
        memory_bytes   = "${attr.memory.totalbytes}"
        hearth_version = var.version
      }
      # It serves one expert at a time and lets others wait: a connection would tell nothing while
      # it works, so the kernel is asked whether somebody listens there.
      check {
        name     = "listens"
        type     = "script"
        task     = "worker"
        command  = "/bin/sh"
        args     = ["-c", "grep -q \"$(printf ':%04X 00000000:0000 0A' \"$NOMAD_PORT_rpc\")\" /proc/net/tcp"]
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "worker" {
      driver       = "raw_exec"
      user         = var.user
      kill_timeout = "10s"

      config {
        command = var.rpc_server
        args = concat(
          ["--host", "${NOMAD_IP_rpc}", "--port", "${NOMAD_PORT_rpc}"],
          var.threads == 0 ? [] : ["--threads", "${var.threads}"],
        )
      }

      env = var.log_work ? { GGML_RPC_DEBUG = "1" } : {}

      resources {
        cpu        = 500
        memory     = var.memory_mb
        memory_max = var.memory_max_mb
      }

      logs {
        max_files     = 2
        max_file_size = 10
      }
    }
  }
}
