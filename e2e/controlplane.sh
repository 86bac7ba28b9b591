#!/usr/bin/env bash
# A real Kubernetes control plane on this machine, without root, containers or images: etcd,
# kube-apiserver, kube-controller-manager, kube-scheduler, and kwok in the place of the kubelets.
set -euo pipefail

# shellcheck source=e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat >&2 <<'USAGE'
usage: e2e/controlplane.sh COMMAND

  build                       build the binaries into a cache; prints the cache directory
  up --dir DIR [--nodes N] [--patient] [--native-gangs] [--audit]
                              start (or start again) the control plane whose state is in DIR;
                              prints the path of the administrator's kubeconfig
  down --dir DIR [--purge]    stop what was started; with --purge also remove DIR
  status --dir DIR            which components run
  stop|start|restart --dir DIR COMPONENT [--signal NAME]
                              one component: etcd apiserver controller-manager scheduler kwok

  --nodes N        number of fake nodes (default 8)
  --patient        nodes report rarely and count as lost after an hour: thousands of fake ones take
                   the processors that their reports need
  --native-gangs   switch on the workload-aware scheduling of Kubernetes 1.37 (Workload, PodGroup)
  --audit          write DIR/log/audit.log, the requests of service accounts in sluice-system
USAGE
}

here=$sluice_root/e2e/controlplane
binaries=(kube-apiserver kubectl kube-scheduler kube-controller-manager etcd kwok helm)
components=(etcd apiserver controller-manager scheduler kwok)

# ---- build ---------------------------------------------------------------------------------

kubernetes_version() { awk '$2 == "k8s.io/kubernetes" {print $3}' "$here/kubernetes/go.mod"; }

build_binary() { # NAME OUTPUT
  local module package flags=(-trimpath) version major minor
  case $1 in
    etcd) module=etcd package=. ;;
    kwok) module=kwok package=sigs.k8s.io/kwok/cmd/kwok ;;
    helm) module=helm package=helm.sh/helm/v4/cmd/helm ;;
    *)
      module=kubernetes package=k8s.io/kubernetes/cmd/$1
      # Without a version the API server calls itself v0.0.0 and clients refuse to talk to it.
      version=$(kubernetes_version)
      IFS=. read -r major minor _ <<<"${version#v}"
      local v=k8s.io/component-base/version
      flags+=(-ldflags "-s -w -X $v.gitVersion=$version -X $v.gitMajor=$major -X $v.gitMinor=$minor")
      ;;
  esac
  env -C "$here/$module" CGO_ENABLED=0 nice go build "${flags[@]}" -o "$2" "$package"
}

copy_stages() { # DIRECTORY: the Stage files of the kwok module, and ours
  local kwok
  kwok=$(env -C "$here/kwok" go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  mkdir -p "$1"
  {
    cat "$kwok/node/fast/node-initialize.yaml"
    echo ---
    cat "$kwok/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"
    echo ---
    cat "$kwok/pod/fast/pod-ready.yaml"
    echo ---
    cat "$kwok/pod/fast/pod-delete.yaml"
    echo ---
    cat "$here/stages/pod-run.yaml"
  } >"$1/stages.yaml.new"
  chmod u+w "$1/stages.yaml.new"
  mv "$1/stages.yaml.new" "$1/stages.yaml"
}

build() {
  local cache key dir name number=0
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/controlplane
  mkdir -p "$cache"
  ensure_go "$cache/log"
  key=$({
    go env GOVERSION GOARCH
    cat "$here"/*/go.mod "$here"/*/go.sum "$here"/*/*.go "$here"/stages/*.yaml
    declare -f build_binary copy_stages
  } | sha256sum | cut -c1-16)
  dir=$cache/$key
  mkdir -p "$dir"
  if [ ! -e "$dir/complete" ]; then
    exec 9>"$dir/lock"
    flock 9
    for name in "${binaries[@]}"; do
      number=$((number + 1))
      [ -x "$dir/$name" ] && continue
      run_logged "$dir/log/$name.log" "building $name ($number of ${#binaries[@]})" \
        build_binary "$name" "$dir/$name.new"
      mv "$dir/$name.new" "$dir/$name"
    done
    copy_stages "$dir/stages"
    touch "$dir/complete"
    exec 9>&-
  fi
  printf '%s\n' "$dir"
}

# ---- files ---------------------------------------------------------------------------------

issue() { # NAME SUBJECT USAGE [SUBJECT-ALTERNATIVE-NAMES]: a certificate of our authority
  local pki=$state/pki
  [ -s "$pki/$1.crt" ] && return 0
  openssl req -config "$pki/openssl.cnf" -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout "$pki/$1.key" -subj "$2" -out "$pki/$1.csr" 2>>"$pki/openssl.log"
  {
    echo 'basicConstraints = critical,CA:FALSE'
    echo 'keyUsage = critical,digitalSignature'
    echo "extendedKeyUsage = $3"
    [ -z "${4:-}" ] || echo "subjectAltName = $4"
  } >"$pki/$1.ext"
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -days 3650 \
    -set_serial "0x$(openssl rand -hex 8)" -extfile "$pki/$1.ext" -out "$pki/$1.crt" \
    2>>"$pki/openssl.log"
  rm -f "$pki/$1.csr" "$pki/$1.ext"
}

make_pki() {
  local pki=$state/pki
  mkdir -p "$pki"
  chmod 700 "$pki"
  cat >"$pki/openssl.cnf" <<'CNF'
[req]
distinguished_name = subject
x509_extensions = authority
[subject]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign,digitalSignature
subjectKeyIdentifier = hash
CNF
  if [ ! -s "$pki/ca.crt" ]; then
    openssl req -config "$pki/openssl.cnf" -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
      -nodes -keyout "$pki/ca.key" -subj /CN=sluice-e2e-ca -days 3650 -out "$pki/ca.crt" \
      2>>"$pki/openssl.log"
  fi
  issue apiserver /CN=kube-apiserver serverAuth \
    IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  issue front-proxy /CN=front-proxy clientAuth
  issue admin /O=system:masters/CN=admin clientAuth
  issue controller-manager /CN=system:kube-controller-manager clientAuth
  issue scheduler /CN=system:kube-scheduler clientAuth
  issue kwok /O=system:masters/CN=kwok clientAuth
  if [ ! -s "$pki/service-account.key" ]; then
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 \
      -out "$pki/service-account.key" 2>>"$pki/openssl.log"
    openssl pkey -in "$pki/service-account.key" -pubout -out "$pki/service-account.pub"
  fi
}

write_kubeconfig() { # USER FILE
  local pki=$state/pki
  (
    umask 077
    cat >"$2.new" <<KUBECONFIG
apiVersion: v1
kind: Config
clusters:
- name: sluice-e2e
  cluster:
    server: https://127.0.0.1:$port_apiserver
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$pki/$1.crt")
    client-key-data: $(base64 -w0 "$pki/$1.key")
contexts:
- name: sluice-e2e
  context: {cluster: sluice-e2e, user: $1}
current-context: sluice-e2e
KUBECONFIG
    mv "$2.new" "$2"
  )
}

write_scheduler_configuration() {
  cat >"$state/scheduler.yaml" <<SCHEDULER
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: $state/scheduler.kubeconfig
  qps: 2000
  burst: 4000
leaderElection:
  leaderElect: false
SCHEDULER
}

write_audit_policy() {
  cat >"$state/audit.yaml" <<'AUDIT'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:sluice-system"]
- level: None
AUDIT
}

# Keeps the ports of an earlier start, so that kubeconfigs stay valid, unless they are taken now.
choose_ports() {
  local name port names=(etcd etcd_peer apiserver controller_manager scheduler kwok) fresh i=0
  if [ -r "$state/ports" ]; then
    # shellcheck disable=SC1091
    source "$state/ports"
    fresh=no
    for name in "${names[@]}"; do
      port=port_$name
      port_is_free "${!port}" || fresh=yes
    done
    [ "$fresh" = no ] && return 0
  fi
  for port in $(free_ports "${#names[@]}"); do
    printf 'port_%s=%s\n' "${names[$i]}" "$port"
    i=$((i + 1))
  done >"$state/ports"
  # shellcheck disable=SC1091
  source "$state/ports"
}

# ---- components ----------------------------------------------------------------------------

gates_of() { # COMPONENT: the feature gates of --native-gangs that this component knows
  [ "$native_gangs" = yes ] || return 0
  local common=GenericWorkload=true,DRAWorkloadResourceClaims=true
  local placement=TopologyAwareWorkloadScheduling=true,CompositePodGroup=true
  placement=$placement,PodGroupPreemptionPolicy=true
  case $1 in
    apiserver) echo "--feature-gates=$common,$placement,WorkloadWithJob=true" ;;
    scheduler) echo "--feature-gates=$common,$placement" ;;
    controller-manager) echo "--feature-gates=$common,WorkloadWithJob=true" ;;
  esac
}

start_etcd() {
  run etcd "$bin/etcd" --name e2e --data-dir "$state/etcd" --unsafe-no-fsync \
    --listen-client-urls "http://127.0.0.1:$port_etcd" \
    --advertise-client-urls "http://127.0.0.1:$port_etcd" \
    --listen-peer-urls "http://127.0.0.1:$port_etcd_peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$port_etcd_peer" \
    --initial-cluster "e2e=http://127.0.0.1:$port_etcd_peer" \
    --quota-backend-bytes 8589934592 --auto-compaction-retention 5m --log-level warn
}

start_apiserver() {
  local pki=$state/pki extra=()
  mapfile -t extra < <(gates_of apiserver)
  if [ "$native_gangs" = yes ]; then
    # The beta and alpha versions are not served by default, whatever the gates say.
    extra+=("--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true")
  fi
  if [ "$audit" = yes ]; then
    extra+=(--audit-policy-file "$state/audit.yaml" --audit-log-path "$state/log/audit.log")
  fi
  # OwnerReferencesPermissionEnforcement is what stricter clusters run with: whoever sets an owner
  # reference that blocks deletion needs the right to change the owner's finalizers.
  run apiserver "$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$port_etcd" \
    --bind-address 127.0.0.1 --secure-port "$port_apiserver" \
    --advertise-address 127.0.0.1 --endpoint-reconciler-type none \
    --service-cluster-ip-range 10.96.0.0/16 --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction,OwnerReferencesPermissionEnforcement \
    --client-ca-file "$pki/ca.crt" --allow-privileged=true \
    --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$pki/service-account.pub" \
    --service-account-signing-key-file "$pki/service-account.key" \
    --requestheader-client-ca-file "$pki/ca.crt" --requestheader-allowed-names front-proxy \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$pki/front-proxy.crt" \
    --proxy-client-key-file "$pki/front-proxy.key" \
    --event-ttl 24h --shutdown-delay-duration 0s "${extra[@]}"
}

start_controller_manager() {
  local pki=$state/pki extra=()
  mapfile -t extra < <(gates_of controller-manager)
  [ "$patient" = no ] || extra+=(--node-monitor-grace-period=1h)
  run controller-manager "$bin/kube-controller-manager" \
    --kubeconfig "$state/controller-manager.kubeconfig" \
    --authentication-kubeconfig "$state/controller-manager.kubeconfig" \
    --authorization-kubeconfig "$state/controller-manager.kubeconfig" \
    --bind-address 127.0.0.1 --secure-port "$port_controller_manager" --leader-elect=false \
    --use-service-account-credentials=true --root-ca-file "$pki/ca.crt" \
    --service-account-private-key-file "$pki/service-account.key" \
    --kube-api-qps 2000 --kube-api-burst 4000 --concurrent-job-syncs 20 --concurrent-gc-syncs 20 \
    "${extra[@]}"
}

start_scheduler() {
  local extra=()
  mapfile -t extra < <(gates_of scheduler)
  run scheduler "$bin/kube-scheduler" --config "$state/scheduler.yaml" \
    --authentication-kubeconfig "$state/scheduler.kubeconfig" \
    --authorization-kubeconfig "$state/scheduler.kubeconfig" \
    --bind-address 127.0.0.1 --secure-port "$port_scheduler" "${extra[@]}"
}

start_kwok() {
  local lease=40
  [ "$patient" = no ] || lease=1200
  run kwok "$bin/kwok" --kubeconfig "$state/kwok.kubeconfig" --config "$bin/stages/stages.yaml" \
    --manage-all-nodes=true --node-lease-duration-seconds "$lease" --cidr 10.244.0.0/16 \
    --node-ip 127.0.0.1 --server-address "127.0.0.1:$port_kwok"
}

run() { # COMPONENT COMMAND...
  local component=$1
  shift
  printf '\n---- started %s\n' "$(date -u +%FT%TZ)" >>"$state/log/$component.log"
  start_process "$state/pid/$component" "$state/log/$component.log" "$@"
}

health_url() {
  case $1 in
    etcd) echo "http://127.0.0.1:$port_etcd/readyz" ;;
    apiserver) echo "https://127.0.0.1:$port_apiserver/readyz" ;;
    controller-manager) echo "https://127.0.0.1:$port_controller_manager/healthz" ;;
    scheduler) echo "https://127.0.0.1:$port_scheduler/readyz" ;;
    kwok) echo "http://127.0.0.1:$port_kwok/healthz" ;;
  esac
}

is_healthy() { # COMPONENT; the health paths are open to everybody, so no certificate is shown
  is_running "$state/pid/$1" &&
    curl --silent --fail --insecure --noproxy '*' --max-time 5 --output /dev/null "$(health_url "$1")"
}

wait_healthy() { # COMPONENT
  local deadline=$((SECONDS + 240))
  until is_healthy "$1"; do
    if ! is_running "$state/pid/$1" || [ "$SECONDS" -ge "$deadline" ]; then
      if is_running "$state/pid/$1"; then say "$1 is not ready after 240 s"; else say "$1 ended"; fi
      say "the end of $state/log/$1.log:"
      tail -n 30 "$state/log/$1.log" >&2
      return 1
    fi
    sleep 0.1
  done
}

start_component() { # COMPONENT
  is_running "$state/pid/$1" && return 0
  "start_${1//-/_}"
}

# ---- nodes ---------------------------------------------------------------------------------

# Nodes form a tree of blocks of 16, subblocks of 4 and hosts.
node_list() { # FIRST LAST
  local i name block subblock
  echo '{"apiVersion":"v1","kind":"List","items":['
  for ((i = $1; i <= $2; i++)); do
    name=$(printf 'node-%04d' "$i")
    block=block-$((i / 16))
    subblock=$block-subblock-$((i % 16 / 4))
    [ "$i" -eq "$1" ] || echo ,
    cat <<NODE
{"apiVersion":"v1","kind":"Node","metadata":{"name":"$name",
 "annotations":{"kwok.x-k8s.io/node":"fake","node.alpha.kubernetes.io/ttl":"0"},
 "labels":{"type":"kwok","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux",
  "kubernetes.io/hostname":"$name","node-role.kubernetes.io/agent":"",
  "node.kubernetes.io/instance-type":"fake-32","topology.sluice.dev/block":"$block",
  "topology.sluice.dev/subblock":"$subblock"}},
 "status":{"allocatable":{"cpu":"32","memory":"128Gi","pods":"110","example.com/gpu":"8"},
  "capacity":{"cpu":"32","memory":"128Gi","pods":"110","example.com/gpu":"8"}}}
NODE
  done
  echo ']}'
}

kubectl() { "$bin/kubectl" --kubeconfig "$state/kubeconfig" "$@"; }

count_nodes() { kubectl get nodes --selector type=kwok --output name | wc -l; }

# On a busy machine a request may come to nothing, and so may a part of a list: what is missing is made
# in the next round. The API server's own validation is enough, and kubectl's takes a large download.
create_nodes() {
  local have
  have=$(count_nodes) || return 1
  [ "$have" -ge "$nodes" ] && return 0
  node_list "$have" "$((nodes - 1))" | kubectl create --validate=false -f - >>"$state/log/nodes.log" 2>&1
}

ensure_nodes() {
  local have
  have=$(count_nodes) || have=0
  [ "$have" -ge "$nodes" ] && return 0
  say "adding nodes: $have are there, $nodes are wanted"
  wait_until 180 "the nodes" create_nodes || die "the nodes cannot be made; see $state/log/nodes.log"
  kubectl wait --for=condition=Ready nodes --all --timeout=240s >>"$state/log/nodes.log" ||
    die "the nodes do not become ready; see $state/log/kwok.log"
}

# ---- commands ------------------------------------------------------------------------------

load_state() { # for the commands that work on what an earlier `up` wrote
  [ -e "$state/sluice-controlplane" ] || die "$state is not the directory of a control plane"
  # shellcheck disable=SC1091
  source "$state/sluice-controlplane"
  # shellcheck disable=SC1091
  [ ! -r "$state/ports" ] || source "$state/ports"
}

save_state() {
  printf 'bin=%q\nnative_gangs=%s\naudit=%s\npatient=%s\n' \
    "$bin" "$native_gangs" "$audit" "$patient" >"$state/sluice-controlplane"
}

any_running() {
  local component
  for component in "${components[@]}"; do
    is_running "$state/pid/$component" && return 0
  done
  return 1
}

up() {
  local component wanted=$native_gangs/$audit/$patient
  mkdir -p "$state"
  if [ -n "$(ls -A "$state")" ] && [ ! -e "$state/sluice-controlplane" ]; then
    die "$state holds other files: give an empty or a new directory"
  fi
  bin=$(build)
  mkdir -p "$state/log" "$state/pid"
  if [ -e "$state/sluice-controlplane" ] && any_running; then
    local wanted_bin=$bin
    load_state
    [ "$native_gangs/$audit/$patient/$bin" = "$wanted/$wanted_bin" ] ||
      die "it runs already with other options or binaries: \`down --dir $state\` first"
  else
    choose_ports
    save_state
  fi
  make_pki
  for component in admin controller-manager scheduler kwok; do
    write_kubeconfig "$component" "$state/$component.kubeconfig"
  done
  mv "$state/admin.kubeconfig" "$state/kubeconfig"
  write_scheduler_configuration
  write_audit_policy
  say "starting etcd and the API server"
  start_component etcd
  wait_healthy etcd
  start_component apiserver
  wait_healthy apiserver
  say "starting the controller manager, the scheduler and kwok"
  for component in controller-manager scheduler kwok; do start_component "$component"; done
  for component in controller-manager scheduler kwok; do wait_healthy "$component"; done
  wait_until 240 "the default service account" kubectl get serviceaccount default ||
    die "the controller manager does nothing; see $state/log/controller-manager.log"
  ensure_nodes
  say "the control plane is up"
  printf '%s\n' "$state/kubeconfig"
}

down() {
  local component
  [ -d "$state" ] || return 0
  load_state
  for component in kwok scheduler controller-manager apiserver etcd; do
    stop_process "$state/pid/$component"
  done
  if [ "$purge" = yes ]; then rm -rf "$state"; fi
}

status() {
  local component state_word
  load_state
  for component in "${components[@]}"; do
    state_word=stopped
    if is_healthy "$component"; then
      state_word=ready
    elif is_running "$state/pid/$component"; then
      state_word=running
    fi
    printf '%-20s %s\n' "$component" "$state_word"
  done
}

one_component() { # stop|start|restart COMPONENT
  load_state
  declare -F "start_${2//-/_}" >/dev/null || die "no component \"$2\" (there are: ${components[*]})"
  if [ "$1" != start ]; then stop_process "$state/pid/$2" "$signal"; fi
  if [ "$1" != stop ]; then
    start_component "$2"
    wait_healthy "$2"
  fi
}

main() {
  local command=${1:-} component=
  [ -n "$command" ] || { usage; exit 2; }
  shift
  state='' nodes=8 native_gangs=no audit=no patient=no purge=no signal=TERM
  while [ $# -gt 0 ]; do
    case $1 in
      --dir) state=${2:?--dir needs a directory}; shift ;;
      --nodes) nodes=${2:?--nodes needs a number}; shift ;;
      --signal) signal=${2:?--signal needs a name}; shift ;;
      --native-gangs) native_gangs=yes ;;
      --audit) audit=yes ;;
      --patient) patient=yes ;;
      --purge) purge=yes ;;
      -*) usage; die "unknown option $1" ;;
      *) [ -z "$component" ] || die "unexpected argument $1"; component=$1 ;;
    esac
    shift
  done
  [[ $nodes =~ ^[0-9]+$ ]] || die "--nodes needs a number, not \"$nodes\""
  case $command in
    build) build; return ;;
    up | down | status | stop | start | restart)
      [ -n "$state" ] || die "$command needs --dir DIR" ;;
    *) usage; exit 2 ;;
  esac
  state=$(realpath -m "$state")
  case $command in
    up) up ;;
    down) down ;;
    status) status ;;
    *) one_component "$command" "${component:?$command needs a component: ${components[*]}}" ;;
  esac
}

main "$@"
