{{/*
One row per kind with an admission webhook. The kinds of jobs get a namespace selector; those of the
queueing API are checked in every namespace. A job kind belongs here when the controller answers for
it, so that no write in the cluster waits for a webhook without use.
*/}}
{{- define "sluice.webhookKinds" -}}
- {kind: job, group: batch, version: v1, resource: jobs, mutate: [CREATE], validate: [CREATE, UPDATE], job: true}
{{- if has "pod" (include "sluice.frameworks" . | fromJsonArray) }}
- {kind: pod, group: "", version: v1, resource: pods, mutate: [CREATE], validate: [CREATE, UPDATE], job: true}
{{- end }}
- {kind: clusterqueue, group: kueue.x-k8s.io, version: v1beta2, resource: clusterqueues, mutate: [CREATE], validate: [CREATE, UPDATE]}
- {kind: cohort, group: kueue.x-k8s.io, version: v1beta2, resource: cohorts, validate: [CREATE, UPDATE]}
- {kind: resourceflavor, group: kueue.x-k8s.io, version: v1beta2, resource: resourceflavors, mutate: [CREATE], validate: [CREATE, UPDATE]}
- {kind: workload, group: kueue.x-k8s.io, version: v1beta2, resource: workloads, mutate: [CREATE], validate: [CREATE, UPDATE], validateStatus: true}
{{- end -}}

{{/*
Namespaces in which the webhooks of jobs are called: those of managedJobsNamespaceSelector, but never
kube-system and the controller's own, whatever it says. A controller that is down must not keep the
cluster's own parts from working.
*/}}
{{- define "sluice.jobNamespaceSelector" -}}
{{- $config := include "sluice.userConfig" . | fromJson -}}
{{- $selector := deepCopy ($config.managedJobsNamespaceSelector | default dict) -}}
{{- $guard := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" .Release.Namespace) -}}
{{- $guarded := false -}}
{{- range $selector.matchExpressions -}}
{{-   if and (eq .key $guard.key) (eq .operator "NotIn") (has "kube-system" .values) (has $.Release.Namespace .values) -}}
{{-     $guarded = true -}}
{{-   end -}}
{{- end -}}
{{- if not $guarded -}}
{{-   $_ := set $selector "matchExpressions" (append ($selector.matchExpressions | default list) $guard) -}}
{{- end -}}
{{- toYaml $selector -}}
{{- end -}}

{{/* The entries of one configuration object; verb is mutate or validate. */}}
{{- define "sluice.webhookEntries" -}}
{{- $root := .root -}}
{{- $settings := include "sluice.settings" $root | fromJson -}}
{{- $verb := .verb -}}
{{- range include "sluice.webhookKinds" $root | fromYamlArray }}
{{- $operations := get . $verb }}
{{- if $operations }}
- name: {{ substr 0 1 $verb }}{{ .kind }}.kb.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- $path := printf "/%s-%s-%s-%s" $verb (.group | replace "." "-") .version .kind }}
    {{- include "sluice.clientConfig" (dict "root" $root "path" $path) | trim | nindent 4 }}
  failurePolicy: Fail
  matchPolicy: Equivalent
  sideEffects: None
  timeoutSeconds: {{ $root.Values.webhook.timeoutSeconds }}
  {{- if eq $verb "mutate" }}
  reinvocationPolicy: {{ $root.Values.mutatingWebhook.reinvocationPolicy }}
  {{- end }}
  {{- if .job }}
  namespaceSelector:
    {{- include "sluice.jobNamespaceSelector" $root | nindent 4 }}
  {{- end }}
  {{- if has .kind (list "job" "pod" "workload") }}
  # What the controller writes itself it has checked before; to ask it again costs every write a call.
  matchConditions:
  - name: not-from-the-controller
    expression: request.userInfo.username != {{ printf "system:serviceaccount:%s:%s" $root.Release.Namespace $settings.serviceAccount | squote }}
  {{- end }}
  {{- if and (eq .kind "pod") (eq $verb "validate") }}
  # Pods that say nothing about queues break no rule about them.
  - name: about-queues
    expression: >-
      [object, oldObject].exists(o, o != null &&
      (o.metadata.?labels.orValue({}).exists(k, k.startsWith('kueue.x-k8s.io/')) ||
      o.metadata.?annotations.orValue({}).exists(k, k.startsWith('kueue.x-k8s.io/'))))
  {{- end }}
  {{- if and (eq .kind "workload") (eq $verb "mutate") }}
  # The only default is about minCount; most Workloads need no call.
  - name: has-min-count
    expression: object.spec.?podSets.orValue([]).exists(podSet, has(podSet.minCount))
  {{- end }}
  {{- if and (eq .kind "workload") (eq $verb "validate") }}
  # A status in which only conditions other than QuotaReserved change breaks no rule but those of the
  # schema.
  - name: more-than-conditions
    expression: >-
      !has(request.subResource) || request.subResource != 'status' ||
      object.?status.?admission.orValue({}) != oldObject.?status.?admission.orValue({}) ||
      object.?status.?admissionChecks.orValue([]) != oldObject.?status.?admissionChecks.orValue([]) ||
      object.?status.?reclaimablePods.orValue([]) != oldObject.?status.?reclaimablePods.orValue([]) ||
      object.?status.?clusterName.orValue('') != oldObject.?status.?clusterName.orValue('') ||
      object.?status.?conditions.orValue([]).exists(c, c.type == 'QuotaReserved' && c.status == 'True') !=
      oldObject.?status.?conditions.orValue([]).exists(c, c.type == 'QuotaReserved' && c.status == 'True')
  {{- end }}
  rules:
  - apiGroups: [{{ .group | quote }}]
    apiVersions: [{{ .version }}]
    operations: {{ toJson $operations }}
    resources:
    - {{ .resource }}
    {{- if and (eq $verb "validate") .validateStatus }}
    - {{ .resource }}/status
    {{- end }}
    scope: "*"
{{- end }}
{{- end }}
{{- end -}}
