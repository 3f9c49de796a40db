# speech-stt turns speech into text, speech-tts text into speech: two jobs of one file, which the variable
# `duty` tells apart. The gateway and pipecatapp find them through Consul. They compute on processors
# alone, unless whisper.cpp was compiled for a GPU. The key comes from Nomad's variable at
# nomad/jobs/speech-stt or speech-tts: service_key.

variable "duty" {
  type        = string
  description = "stt or tts."
}

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "machines" {
  type        = list(string)
  default     = []
  description = "Names of the machines that have its model; empty: all."
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

variable "model" {
  type        = string
  description = "Name of the catalogue's speech model of that duty, which names its engine."
}

variable "model_dir" {
  type        = string
  default     = "/var/lib/hearth/models"
  description = "Where the model files lie, a folder a model."
}

variable "language" {
  type        = string
  default     = ""
  description = "What is spoken where a request does not say; empty: as the model has it."
}

variable "threads" {
  type        = number
  default     = 2
  description = "Processor threads of Whisper; other engines take what they want."
}

variable "whisper_server" {
  type        = string
  default     = "/opt/hearth/whisper.cpp/current/bin/whisper-server"
  description = "The compiled server; for models of whisper.cpp only."
}

variable "listen" {
  type        = string
  default     = "0.0.0.0"
  description = "Address it listens on."
}

variable "tls_dir" {
  type        = string
  default     = ""
  description = "Folder on the machine with service.pem and service-key.pem; empty: plain HTTP."
}

variable "drain_seconds" {
  type        = number
  default     = 10
  description = "How long answers under way may take when it stops."
}

variable "memory_mb" {
  type        = number
  default     = 384
  description = "Memory that is set aside for it: its own, and that of its engine."
}

locals {
  id     = "speech-${var.duty}"
  scheme = var.tls_dir == "" ? "http" : "https"
}

job "speech" {
  id          = local.id
  name        = local.id
  type        = "service"
  datacenters = var.datacenters

  meta {
    hearth_version = var.version
  }

  # The next one is warm before the old one goes.
  update {
    max_parallel      = 1
    canary            = 1
    auto_promote      = true
    auto_revert       = true
    min_healthy_time  = "3s"
    healthy_deadline  = "5m"
    progress_deadline = "10m"
  }

  group "speech" {
    count = 1

    constraint {
      attribute = "${meta.power_class}"
      operator  = "!="
      value     = "sleeps"
    }
    constraint {
      attribute = "${node.unique.name}"
      operator  = "regexp"
      value     = length(var.machines) == 0 ? "." : "^(${join("|", var.machines)})$"
    }

    network {
      mode = "host"
      port "http" {}
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
      name     = local.id
      provider = "consul"
      port     = "http"
      tags     = ["speech", "metrics"]
      meta {
        scheme         = local.scheme
        metrics_scheme = local.scheme
        model          = var.model
        slots          = "4"
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
          grace = "3m"
        }
      }
    }

    task "speech" {
      driver       = "raw_exec"
      user         = var.user
      kill_signal  = "SIGTERM"
      kill_timeout = "${var.drain_seconds + 5}s"

      config {
        command = var.python
        args    = ["-P", "-m", "speech"]
      }

      template {
        destination = "${NOMAD_SECRETS_DIR}/services"
        data        = "{{ with nomadVar \"nomad/jobs/${local.id}\" }}{{ .service_key }}{{ end }}"
        change_mode = "restart"
      }

      env = merge(
        {
          PYTHONUNBUFFERED     = "1"
          MALLOC_ARENA_MAX     = "2"
          SPEECH_DUTY          = var.duty
          SPEECH_HOST          = var.listen
          SPEECH_PORT          = "${NOMAD_PORT_http}"
          SPEECH_KEY_FILES     = "[\"${NOMAD_SECRETS_DIR}/services\"]"
          SPEECH_MODEL         = var.model
          SPEECH_MODEL_DIR     = var.model_dir
          SPEECH_DRAIN_SECONDS = "${var.drain_seconds}"
        },
        var.language == "" ? {} : { SPEECH_LANGUAGE = var.language },
        var.duty == "stt" ? {
          SPEECH_THREADS        = "${var.threads}"
          SPEECH_WHISPER_SERVER = var.whisper_server
        } : {},
        var.tls_dir == "" ? {} : {
          SPEECH_TLS_CERT_FILE = "${var.tls_dir}/service.pem"
          SPEECH_TLS_KEY_FILE  = "${var.tls_dir}/service-key.pem"
        },
      )

      resources {
        cpu        = 500
        memory     = var.memory_mb
        memory_max = var.memory_mb * 3
      }

      logs {
        max_files     = 2
        max_file_size = 10
      }
    }
  }
}
