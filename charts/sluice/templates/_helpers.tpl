{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride -}}
{{- end -}}

{{/*
Prefix of all object names. It is not shortened: two releases could then meet in one name. The
longest Service name adds 35 characters, and a Service name may have 63.
*/}}
{{- define "sluice.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{-   $chart := include "sluice.name" . -}}
{{-   $name = contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) -}}
{{- end -}}
{{- if gt (len $name) 28 -}}
{{-   fail (printf "the name prefix %q has more than 28 characters: set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "sluice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end -}}

{{- define "sluice.labels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
control-plane: controller-manager
{{- end -}}

{{- define "sluice.image" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}

{{/*
Plural names of the kinds whose two served versions differ in more than the name; the generator of the
definitions marks them.
*/}}
{{- define "sluice.convertedResources" -}}
{{- $names := list -}}
{{- range $path, $bytes := .Files.Glob "files/crds/*.yaml" -}}
{{-   if regexMatch "(?m)^    sluice.dev/conversion: webhook$" (toString $bytes) -}}
{{-     $names = append $names (base $path | trimPrefix "kueue.x-k8s.io_" | trimSuffix ".yaml") -}}
{{-   end -}}
{{- end -}}
{{- if not $names -}}
{{-   fail "files/crds/ of the chart has no kind with a conversion webhook: build the target that generates the definitions" -}}
{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* The configuration file as the user wrote it, as JSON. */}}
{{- define "sluice.userConfig" -}}
{{- $path := "managerConfig.controllerManagerConfigYaml" -}}
{{- $text := include "sluice.userConfigText" . -}}
{{- $config := fromYaml $text -}}
{{- if hasKey $config "Error" -}}
{{-   fail (printf "%s is not a YAML object: %s" $path $config.Error) -}}
{{- end -}}
{{- $config | toJson -}}
{{- end -}}

{{/* The integrations that the configuration file enables, as a JSON list. */}}
{{- define "sluice.frameworks" -}}
{{- $config := include "sluice.userConfig" . | fromJson -}}
{{- $integrations := $config.integrations | default dict -}}
{{- $integrations.frameworks | default (list "batch/job") | toJson -}}
{{- end -}}

{{- define "sluice.userConfigText" -}}
{{- $text := regexReplaceAll "\\A---[ \\t]*\\n" (trim .Values.managerConfig.controllerManagerConfigYaml) "" -}}
{{- if regexMatch "(?m)^(---|\\.\\.\\.)" $text -}}
{{-   fail "managerConfig.controllerManagerConfigYaml must be one YAML document" -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/*
What other templates need to know of the configuration file, with the defaults of the controller.
JSON; read it with fromJson.
*/}}
{{- define "sluice.settings" -}}
{{- $config := include "sluice.userConfig" . | fromJson -}}
{{- $fullname := include "sluice.fullname" . -}}
{{- $health := $config.health | default dict -}}
{{- $metrics := $config.metrics | default dict -}}
{{- $webhook := $config.webhook | default dict -}}
{{- $election := $config.leaderElection | default dict -}}
{{- $certs := $config.internalCertManagement | default dict -}}
{{- $healthAddress := $health.healthProbeBindAddress | default ":8081" | toString -}}
{{- $metricsAddress := $metrics.bindAddress | default ":8443" | toString -}}
{{- $visibility := $config.visibilityServer | default dict -}}
{{- $gates := $config.featureGates | default dict -}}
{{- $visible := hasKey $gates "VisibilityOnDemand" | ternary (get $gates "VisibilityOnDemand") true -}}
{{- range .Values.controllerManager.featureGates -}}
{{-   if eq .name "VisibilityOnDemand" }}{{ $visible = .enabled }}{{ end -}}
{{- end -}}
{{- $outside := or .Values.webhook.urlBase (eq (int .Values.controllerManager.replicas) 0) -}}
{{- $internal := not .Values.enableCertManager -}}
{{- if hasKey $config "internalCertManagement" -}}
{{-   $internal = hasKey $certs "enable" | ternary $certs.enable true -}}
{{- end -}}
{{- $out := dict
      "fullname" $fullname
      "webhookService" (printf "%s-webhook-service" $fullname)
      "webhookSecret" (printf "%s-webhook-server-cert" $fullname)
      "metricsService" (printf "%s-controller-manager-metrics-service" $fullname)
      "visibilityOn" $visible
      "visibilityPort" ($visibility.bindPort | default 8082)
      "visibilityService" (printf "%s-visibility-server" $fullname)
      "visibilityServed" (and $visible (or (not $outside) (ne .Values.visibilityService.externalName "")))
      "serviceAccount" (printf "%s-controller-manager" $fullname)
      "internalCerts" $internal
      "webhookPort" ($webhook.port | default 9443)
      "certDir" ($webhook.certDir | default "/tmp/k8s-webhook-server/serving-certs")
      "healthOn" (ne $healthAddress "0")
      "healthPort" (regexFind "[0-9]+$" $healthAddress | atoi)
      "livenessPath" ($health.livenessEndpointName | default "/healthz")
      "readinessPath" ($health.readinessEndpointName | default "/readyz")
      "metricsOn" (ne $metricsAddress "0")
      "metricsPort" (regexFind "[0-9]+$" $metricsAddress | atoi)
      "elect" (hasKey $election "leaderElect" | ternary $election.leaderElect true)
      "leaseName" ($election.resourceName | default "c1f6bfd2.kueue.x-k8s.io")
      "leaseNamespace" ($election.resourceNamespace | default .Release.Namespace)
-}}
{{- $out | toJson -}}
{{- end -}}

{{/*
The configuration file as the controller gets it: the user's text with its comments, plus the names
that only the chart knows. Only where those names belong into a block the user began is the file
written anew from its content.
*/}}
{{- define "sluice.configFile" -}}
{{- $text := include "sluice.userConfigText" . -}}
{{- $config := include "sluice.userConfig" . | fromJson -}}
{{- $settings := include "sluice.settings" . | fromJson -}}
{{- $certs := dict "enable" $settings.internalCerts -}}
{{- if $settings.internalCerts -}}
{{-   $_ := set $certs "webhookServiceName" $settings.webhookService -}}
{{-   $_ := set $certs "webhookSecretName" $settings.webhookSecret -}}
{{- end -}}
{{- $added := dict -}}
{{- if not (hasKey $config "namespace") -}}
{{-   $_ := set $added "namespace" .Release.Namespace -}}
{{- end -}}
{{- $given := $config.internalCertManagement | default dict -}}
{{- $complete := or (not $settings.internalCerts) (and (hasKey $given "webhookServiceName") (hasKey $given "webhookSecretName")) -}}
{{- if or (not (hasKey $config "internalCertManagement")) (not $complete) -}}
{{-   $_ := set $added "internalCertManagement" (merge (deepCopy $given) $certs) -}}
{{- end -}}
{{- if or (hasPrefix "{" $text) (and (hasKey $config "internalCertManagement") (hasKey $added "internalCertManagement")) -}}
{{-   toYaml (mergeOverwrite (deepCopy $config) $added) -}}
{{- else -}}
{{-   with $added }}{{ toYaml . }}
{{ end -}}
{{- $text -}}
{{- end -}}
{{- end -}}

{{/* Address of one webhook path; caBundle is left to the controller or to cert-manager. */}}
{{- define "sluice.clientConfig" -}}
{{- $root := .root -}}
{{- if $root.Values.webhook.urlBase }}
url: {{ printf "%s%s" $root.Values.webhook.urlBase .path }}
{{- else }}
service:
  name: {{ include "sluice.fullname" $root }}-webhook-service
  namespace: {{ $root.Release.Namespace }}
  path: {{ .path }}
  port: {{ (index $root.Values.webhookService.ports 0).port }}
{{- end }}
{{- with $root.Values.webhook.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- end -}}

{{- define "sluice.injectCaAnnotation" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "sluice.fullname" . }}-serving-cert
{{- end -}}

{{- define "sluice.featureGates" -}}
{{- $gates := list -}}
{{- range .Values.controllerManager.featureGates -}}
{{-   $gates = append $gates (printf "%s=%t" .name .enabled) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}
