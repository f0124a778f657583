# One item of a plan for each dispatch:
#     nomad job run nomad.hcl && nomad job dispatch -meta item=docs longwatch
job "longwatch" {
  type = "batch"

  parameterized {
    meta_required = ["item"]
  }

  group "item" {
    # longwatch ends with 75 when there is more to do; Nomad starts it again, and it goes on in the same folder.
    restart {
      attempts = 10
      delay    = "30s"
      mode     = "fail"
    }

    volume "state" {
      type   = "host"
      source = "longwatch"
    }

    task "run" {
      driver = "exec"

      config {
        command = "longwatch"
        args = [
          "runner", "--foreground", "--lease", "off",
          "--plan", "${NOMAD_TASK_DIR}/plan.toml", "--item", "${NOMAD_META_item}",
        ]
      }

      # Longer than the grace of the item, 10 s.
      kill_timeout = "60s"
      kill_signal  = "SIGTERM"

      env {
        XDG_STATE_HOME = "/state"
      }

      volume_mount {
        volume      = "state"
        destination = "/state"
      }

      template {
        destination = "local/plan.toml"
        data        = "{{ key \"longwatch/plan.toml\" }}"
      }

      resources {
        cores  = 1
        memory = 4096
      }
    }
  }
}
