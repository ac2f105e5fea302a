{{- define "gantrymq.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "gantrymq.labels" -}}
app.kubernetes.io/name: gantrymq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gantrymq.selector" -}}
app.kubernetes.io/name: gantrymq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gantrymq.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* The addresses of all name servers, as brokers and clients write them. */ -}}
{{- define "gantrymq.namesrv" -}}
{{- $name := include "gantrymq.name" . -}}
{{- range $i := until (int .Values.nameServers.replicas) -}}
{{- if $i }};{{ end }}{{ $name }}-namesrv-{{ $i }}.{{ $name }}-namesrv:9876
{{- end -}}
{{- end }}

{{- define "gantrymq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10911
runAsGroup: 10911
fsGroup: 10911
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gantrymq.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
