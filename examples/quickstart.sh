#!/usr/bin/env bash
# Sluice on a Kubernetes cluster of your own, on this machine, in one command.
#
#   examples/quickstart.sh                 build, start, submit some Jobs and watch them
#   examples/quickstart.sh --no-demo       the same cluster with the chart and nothing else; the last
#                                          line is the path of the kubeconfig
#   examples/quickstart.sh --native-gangs  with the workload-aware scheduling of Kubernetes 1.37
#   examples/quickstart.sh --down          stop it (--purge: and forget what was in it)
#
# It installs what is missing (Debian packages, Go), builds the controller and the control plane,
# starts etcd, the API server, the controller manager, the scheduler and fake nodes, installs the
# chart, and runs the controller beside them. The state is in ~/.local/state/sluice/quickstart, or
# where SLUICE_QUICKSTART_DIR says. With SLUICE_BIN=FILE it runs that controller and builds none.
set -euo pipefail

# shellcheck source=e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"

state=${SLUICE_QUICKSTART_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/sluice/quickstart}
examples=$sluice_root/examples
namespace=sluice-system
plane=$state/controlplane
controller=${SLUICE_BIN:-$sluice_root/build/release/bin/sluice-controller}
down=no purge=no demo=yes gangs=()

controlplane() { "$sluice_root/e2e/controlplane.sh" "$@"; }
kubectl() { "$bin/kubectl" --kubeconfig "$plane/kubeconfig" "$@"; }
helm() { KUBECONFIG=$plane/kubeconfig "$bin/helm" "$@"; }

take_down() {
  [ -d "$state" ] || { say "nothing is running"; return 0; }
  say "stopping the controller and the control plane"
  stop_process "$state/pid/controller"
  if [ "$purge" = yes ]; then
    controlplane down --dir "$plane" --purge
    rm -rf "$state"
  else
    controlplane down --dir "$plane"
  fi
  say "stopped"
}

# Go and C++ take turns on the processors: while one loads or links, the other compiles.
build_everything() {
  local builder
  ensure_packages "$state/log"
  ensure_go "$state/log"
  controlplane build >"$state/bin" &
  builder=$!
  if [ -z "${SLUICE_BIN:-}" ]; then
    build_sluice "$state/log" || { wait "$builder" || true; exit 1; }
  fi
  wait "$builder" || die "the control plane could not be built"
  bin=$(cat "$state/bin")
}

# The controller's ports stay the same over restarts, unless somebody else took them.
choose_controller_ports() {
  local ports
  if [ -r "$state/ports" ]; then
    # shellcheck disable=SC1091
    source "$state/ports"
    if port_is_free "$port_webhook" && port_is_free "$port_health" && port_is_free "$port_metrics" &&
      [ -n "${port_visibility:-}" ] && port_is_free "$port_visibility"; then
      return 0
    fi
  fi
  mapfile -t ports < <(free_ports 4)
  printf 'port_webhook=%s\nport_health=%s\nport_metrics=%s\nport_visibility=%s\n' "${ports[@]}" \
    >"$state/ports"
  # shellcheck disable=SC1091
  source "$state/ports"
}

# The configuration is a value of the chart, so that `helm get values` shows what runs here.
write_values() {
  cat >"$state/values.yaml" <<VALUES
controllerManager:
  replicas: 0
webhook:
  urlBase: https://127.0.0.1:$port_webhook
visibilityService:
  externalName: localhost
  port: $port_visibility
managerConfig:
  controllerManagerConfigYaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    namespace: $namespace
    health:
      healthProbeBindAddress: 127.0.0.1:$port_health
    metrics:
      bindAddress: 127.0.0.1:$port_metrics
    visibilityServer:
      bindAddress: 127.0.0.1
      bindPort: $port_visibility
    webhook:
      host: 127.0.0.1
      port: $port_webhook
    leaderElection:
      leaderElect: true
      resourceName: c1f6bfd2.kueue.x-k8s.io
      resourceNamespace: $namespace
    integrations:
      frameworks:
      - batch/job
VALUES
}

write_controller_kubeconfig() {
  local token
  token=$(kubectl create token sluice-controller-manager --namespace "$namespace" --duration 720h)
  (
    umask 077
    sed -e "s|^  user:.*|  user: {token: $token}|" \
      -e '/^    client-certificate-data:/d; /^    client-key-data:/d' \
      "$plane/kubeconfig" >"$state/controller.kubeconfig"
  )
}

start_controller() {
  kubectl get configmap sluice-manager-config --namespace "$namespace" \
    --output 'go-template={{index .data "controller_manager_config.yaml"}}' >"$state/controller.yaml"
  write_controller_kubeconfig
  POD_NAMESPACE=$namespace POD_NAME=sluice-controller-manager-0 \
    start_process "$state/pid/controller" "$state/log/controller.log" \
    "$controller" --config "$state/controller.yaml" --kubeconfig "$state/controller.kubeconfig"
}

controller_is_ready() {
  curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null \
    "http://127.0.0.1:$port_health/readyz"
}

webhooks_answer() {
  kubectl create --dry-run=server --filename - <<'PROBE'
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: webhook-probe}
spec: {}
PROBE
}

wait_for_controller() {
  local what
  for what in controller_is_ready webhooks_answer; do
    if ! wait_until 60 "the controller (${what//_/ })" "$what"; then
      say "the end of $state/log/controller.log:"
      tail -n 30 "$state/log/controller.log" >&2
      exit 1
    fi
  done
}

bring_up() {
  mkdir -p "$state/log"
  build_everything
  controlplane up --dir "$plane" --nodes 8 "${gangs[@]}" >/dev/null
  stop_process "$state/pid/controller"
  choose_controller_ports
  write_values
  run_logged "$state/log/helm.log" "installing the chart" helm upgrade --install sluice \
    "$sluice_root/charts/sluice" --namespace "$namespace" --create-namespace \
    --values "$state/values.yaml"
  kubectl wait --for=condition=Established --timeout=60s crd \
    --selector app.kubernetes.io/instance=sluice >/dev/null
  say "starting the controller"
  start_controller
  wait_for_controller
}

# ---- the demonstration ---------------------------------------------------------------------

submit_demo() {
  say "creating two teams and their queues (examples/flavors.yaml, examples/teams.yaml)"
  kubectl apply --filename "$examples/flavors.yaml" --filename "$examples/teams.yaml" >/dev/null
  say "submitting Jobs (examples/jobs.yaml)"
  kubectl delete --filename "$examples/jobs.yaml" --ignore-not-found >/dev/null
  kubectl create --filename "$examples/jobs.yaml" >/dev/null
}

# One line for each Workload of the teams: namespace, Job, admitted, finished, why it waits.
list_workloads() {
  # The template is for kubectl, not for the shell.
  # shellcheck disable=SC2016
  kubectl get workloads.kueue.x-k8s.io --all-namespaces --output 'go-template={{range .items}}
{{- $admitted := "False"}}{{$finished := "False"}}{{$why := ""}}
{{- range .status.conditions}}
{{- if eq .type "Admitted"}}{{$admitted = .status}}{{end}}
{{- if eq .type "Finished"}}{{$finished = .status}}{{end}}
{{- if and (eq .type "QuotaReserved") (eq .status "False")}}{{$why = .message}}{{end}}
{{- end}}
{{- .metadata.namespace}}|{{range .metadata.ownerReferences}}{{.name}}{{end}}|{{$admitted}}|{{$finished}}|{{$why}}
{{end}}'
}

# The reason is the message of the condition QuotaReserved, without what is the same in each.
draw_table() {
  awk -F'|' -v width="$columns" '
    NF >= 5 && $1 ~ /^team-/ {
      state = $4 == "True" ? "finished" : $3 == "True" ? "runs" : "waits"
      why = state == "waits" ? $5 : ""
      sub(/^couldn.t assign flavors to pod set [^:]*: /, "", why)
      if (state == "waits" && why == "") why = "is not at the head of its queue"
      if (length(why) > width - 34) why = substr(why, 1, width - 37) "..."
      printf "  %-8s %-12s %-9s %s\n", $1, $2, state, why
    }' <<<"$1"
}

watch_demo() {
  local last='' now busy seconds=0 columns=160
  # A line that the terminal breaks would not be drawn over.
  if [ -t 1 ]; then columns=$(stty size 2>/dev/null </dev/tty | cut -d ' ' -f 2) || columns=80; fi
  printf '\n  %-8s %-12s %-9s %s\n' TEAM JOB STATE WHY
  while [ "$seconds" -lt 120 ]; do
    now=$(draw_table "$(list_workloads)")
    if [ "$now" != "$last" ]; then
      if [ -t 1 ] && [ -n "$last" ]; then printf '\033[%dA\033[J' "$(wc -l <<<"$last")"; fi
      if [ ! -t 1 ] && [ -n "$last" ]; then printf '\n'; fi
      printf '%s\n' "$now"
      last=$now
    fi
    # What asks for more than the quota waits for ever; the show ends without it.
    busy=$(grep -c ' runs ' <<<"$now" || true)
    if [ "$busy" -eq 0 ] && [ "$seconds" -gt 5 ] && grep -q ' finished ' <<<"$now"; then break; fi
    sleep 1
    seconds=$((seconds + 1))
  done
  printf '\n'
}

farewell() {
  cat <<TEXT
The cluster keeps running. To use it:

  export KUBECONFIG=$plane/kubeconfig PATH=$bin:\$PATH
  kubectl get clusterqueues,localqueues --all-namespaces
  kubectl get workloads.kueue.x-k8s.io --all-namespaces
  kubectl describe workloads.kueue.x-k8s.io --namespace team-b
  helm list --all-namespaces

The controller's log: $state/log/controller.log
To stop it:           examples/quickstart.sh --down
TEXT
}

main() {
  while [ $# -gt 0 ]; do
    case $1 in
      --down) down=yes ;;
      --purge) purge=yes ;;
      --no-demo) demo=no ;;
      --native-gangs) gangs=(--native-gangs) ;;
      *) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
  done
  if [ "$down" = yes ]; then
    take_down
    return
  fi
  [ -z "${SLUICE_BIN:-}" ] || [ -x "$controller" ] || die "SLUICE_BIN: $controller is no program"
  bring_up
  if [ "$demo" = no ]; then
    say "the cluster is up"
    printf '%s\n' "$plane/kubeconfig"
    return
  fi
  submit_demo
  watch_demo
  farewell
}

main "$@"
