{{/* The name of everything: the release's, with the chart's behind it unless it is in there already. */}}
{{- define "larder.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods; it can never change. */}}
{{- define "larder.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "larder.labels" -}}
{{ include "larder.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The source's URL, with the file of its password. */}}
{{- define "larder.source" -}}
{{- $url := .Values.source.url -}}
{{- if .Values.source.passwordSecret.name -}}
{{- $url }}{{ ternary "&" "?" (contains "?" $url) }}password-file=/run/secrets/source/{{ .Values.source.passwordSecret.key }}
{{- else -}}
{{- $url -}}
{{- end -}}
{{- end -}}

{{/* The names of all pods, for peers.discovery set. */}}
{{- define "larder.peers" -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail "autoscaling.enabled needs peers.discovery dns, gossip or pods: with set, all nodes must know how many they are" -}}
{{- end -}}
{{- $name := include "larder.name" . -}}
{{- range $number := until (int .Values.replicas) -}}
{{- if $number }},{{ end }}{{ $name }}-{{ $number }}.{{ $name }}-peers:8080
{{- end -}}
{{- end -}}
