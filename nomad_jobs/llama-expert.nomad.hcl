# llama-expert: one expert, the first model of its list that fits, loads and answers. Its launcher
# tells Consul which one that is. The key comes from Nomad's variable at nomad/jobs/llama-expert-<name>:
# expert_key.

variable "expert" {
  type        = string
  description = "What the expert is called."
}

variable "models" {
  type        = list(string)
  description = "Names of the catalogue, best first; the last is small enough for any machine."
}

variable "aliases" {
  type        = list(string)
  default     = []
  description = "Other names by which it can be asked."
}

variable "cost" {
  type        = number
  default     = 1
  description = "What a token costs beside the other experts' tokens."
}

variable "languages" {
  type        = list(string)
  default     = []
  description = "Languages that it speaks; empty: any."
}

variable "domains" {
  type        = list(string)
  default     = []
  description = "What it is made for; empty: everything alike."
}

variable "fallback" {
  type        = list(string)
  default     = []
  description = "Experts that answer in its place when it cannot."
}

variable "auto" {
  type        = bool
  default     = true
  description = "Whether it may be chosen for the model auto."
}

variable "context" {
  type        = number
  default     = 0
  description = "Tokens a conversation may hold; 0: as the catalogue says."
}

variable "slots" {
  type        = number
  default     = 4
  description = "How many callers are answered at once."
}

variable "threads" {
  type        = number
  default     = 0
  description = "Processor threads; 0: one less than physical cores."
}

variable "rpc" {
  type        = bool
  default     = false
  description = "Whether the model is spread over the machines that run llama-rpc."
}

variable "backend" {
  type        = string
  default     = "cpu"
  description = "What llama-server was compiled for: cpu, cuda, rocm or vulkan."
}

variable "count" {
  type        = number
  default     = 1
  description = "On how many machines it runs."
}

variable "machines" {
  type        = list(string)
  default     = []
  description = "Names of the machines that may run it; empty: all."
}

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where it may run."
}

variable "python" {
  type        = string
  default     = "/opt/hearth/current/venv/bin/python"
  description = "The Python that has Hearth installed."
}

variable "llama_server" {
  type        = string
  default     = "/opt/hearth/llama.cpp/current/bin/llama-server"
  description = "The compiled server."
}

variable "model_dir" {
  type        = string
  default     = "/var/lib/hearth/models"
  description = "Where the model files lie."
}

variable "user" {
  type        = string
  default     = "hearth"
  description = "Who it runs as."
}

variable "version" {
  type        = string
  default     = ""
  description = "Version of Hearth and of the engine; a new one is a new deployment."
}

variable "consul_url" {
  type        = string
  default     = "http://127.0.0.1:8500"
  description = "The Consul agent of its machine."
}

variable "consul_ca_file" {
  type        = string
  default     = ""
  description = "The authority of that agent's certificate, where it has one."
}

variable "consul_acl" {
  type        = bool
  default     = true
  description = "Whether Consul demands a token; the job's identity then gets one."
}

variable "load_seconds" {
  type        = number
  default     = 900
  description = "How long a model may take until it answers."
}

variable "drain_seconds" {
  type        = number
  default     = 20
  description = "How long answers under way may take when it stops."
}

variable "memory_mb" {
  type        = number
  default     = 1024
  description = "Memory that is set aside for it: that of the small model."
}

variable "memory_max_mb" {
  type        = number
  default     = 0
  description = "Memory that it may take where there is some: that of the best model; 0: no more."
}

locals {
  id = "llama-expert-${var.expert}"
  # Every model of the list may take its time before the last one answers.
  patience = var.load_seconds * length(var.models)
}

job "llama-expert" {
  id          = local.id
  name        = local.id
  type        = "service"
  datacenters = var.datacenters

  meta {
    expert         = var.expert
    hearth_version = var.version
  }

  update {
    max_parallel     = 1
    auto_revert      = true
    health_check     = "checks"
    min_healthy_time = "3s"
    healthy_deadline = "${local.patience + 60}s"
    # The first one that fails for good ends the deployment: whoever waits is told at once.
    progress_deadline = "0s"
  }

  group "expert" {
    count = var.count

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }
    constraint {
      attribute = "${node.unique.name}"
      operator  = "regexp"
      value     = length(var.machines) == 0 ? "." : "^(${join("|", var.machines)})$"
    }

    network {
      mode = "host"
      port "api" {}
      port "metrics" {}
    }

    # The launcher takes its entry out of Consul itself, then lets answers end.
    shutdown_delay = "1s"

    restart {
      attempts = 3
      interval = "10m"
      delay    = "5s"
      mode     = "fail"
    }
    reschedule {
      delay          = "5s"
      delay_function = "exponential"
      max_delay      = "2m"
      unlimited      = true
    }
    # A machine that sleeps or is cut off keeps its expert for a while; another takes over at once.
    disconnect {
      lost_after = "1m"
      replace    = true
      reconcile  = "best_score"
    }

    # The launcher's own figures; its check tells Nomad whether the model answers. The expert's entry
    # in Consul is written by the launcher, and this one is not named llama-expert-…: it is none.
    service {
      name     = "expert-launcher"
      provider = "consul"
      port     = "metrics"
      tags     = ["metrics"]
      meta {
        expert         = var.expert
        hearth_version = var.version
      }
      check {
        name     = "answers"
        type     = "http"
        port     = "api"
        path     = "/health"
        interval = "5s"
        timeout  = "5s"
        check_restart {
          # With other workers the engine is loaded anew, which looks like an illness.
          limit = var.rpc ? ceil(local.patience / 5) : 6
          grace = "${local.patience}s"
        }
      }
    }

    task "launcher" {
      driver       = "raw_exec"
      user         = var.user
      kill_signal  = "SIGTERM"
      kill_timeout = "${var.drain_seconds + 20}s"

      config {
        command = var.python
        args    = ["-P", "-m", "llama_expert"]
      }

      consul {}

      template {
        destination = "${NOMAD_SECRETS_DIR}/key"
        data        = "{{ with nomadVar \"nomad/jobs/${local.id}\" }}{{ .expert_key }}{{ end }}"
        change_mode = "restart"
      }
      # Nomad writes the token itself, too, but for root's eyes.
      template {
        destination = "${NOMAD_SECRETS_DIR}/consul"
        data        = "{{ env \"CONSUL_HTTP_TOKEN\" }}"
        change_mode = "noop"
      }

      env = merge(
        {
          PYTHONUNBUFFERED                 = "1"
          LLAMA_EXPERT_NAME                = var.expert
          LLAMA_EXPERT_HOST                = "${NOMAD_IP_api}"
          LLAMA_EXPERT_PORT                = "${NOMAD_PORT_api}"
          LLAMA_EXPERT_METRICS_PORT        = "${NOMAD_PORT_metrics}"
          LLAMA_EXPERT_MODELS              = jsonencode(var.models)
          LLAMA_EXPERT_ALIASES             = jsonencode(var.aliases)
          LLAMA_EXPERT_COST                = "${var.cost}"
          LLAMA_EXPERT_LANGUAGES           = jsonencode(var.languages)
          LLAMA_EXPERT_DOMAINS             = jsonencode(var.domains)
          LLAMA_EXPERT_FALLBACK            = jsonencode(var.fallback)
          LLAMA_EXPERT_AUTO                = "${var.auto}"
          LLAMA_EXPERT_MODEL_DIR           = var.model_dir
          LLAMA_EXPERT_ENGINE              = "llama-server"
          LLAMA_EXPERT_LLAMA_SERVER_BINARY = var.llama_server
          LLAMA_EXPERT_BACKEND             = var.backend
          LLAMA_EXPERT_KEY_FILE            = "${NOMAD_SECRETS_DIR}/key"
          LLAMA_EXPERT_SLOTS               = "${var.slots}"
          LLAMA_EXPERT_LOAD_TIMEOUT        = "${var.load_seconds}"
          LLAMA_EXPERT_DRAIN_SECONDS       = "${var.drain_seconds}"
          LLAMA_EXPERT_RPC                 = "${var.rpc}"
          LLAMA_EXPERT_CONSUL_URL          = var.consul_url
        },
        var.context == 0 ? {} : { LLAMA_EXPERT_CONTEXT = "${var.context}" },
        var.threads == 0 ? {} : { LLAMA_EXPERT_THREADS = "${var.threads}" },
        var.consul_ca_file == "" ? {} : { LLAMA_EXPERT_CONSUL_CA_FILE = var.consul_ca_file },
        var.consul_acl ? { LLAMA_EXPERT_CONSUL_TOKEN_FILE = "${NOMAD_SECRETS_DIR}/consul" } : {},
      )

      resources {
        cpu        = 1000
        memory     = var.memory_mb
        memory_max = max(var.memory_mb, var.memory_max_mb)
      }

      logs {
        max_files     = 3
        max_file_size = 10
      }
    }
  }
}
