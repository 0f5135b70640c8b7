using System.Globalization;
using System.Net.Sockets;
using System.Security.Authentication;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Turns a failed attempt to connect into a message that names the broker, the failure and the setting to change.</summary>
internal sealed class ConnectFailures(BrokerAddress address, MqttOptions options)
{
    // Mosquitto, for one, closes a connection above its limit without a word.
    private const string Full = "be at its limit of connections (max_connections at Mosquitto)";

    public MqttConnectException Explain(Exception exception, ConnectAttempt attempt, bool isTimeout)
    {
        if (attempt.CertificateFailure is { } failure)
        {
            return new MqttConnectException(
                $"No connection to {address.Target}: {nameof(MqttOptions.ValidateServerCertificate)} failed with {failure.GetType().Name}.", reasonCode: null, failure);
        }

        if (attempt.CertificateComplaint is { } complaint)
            return Refusal($"The broker at {address.Target} is not trusted: its certificate {complaint}.", exception);
        if (exception is MqttConnectException { ReasonCode: not null } refused)
            return refused;
        if (exception is MqttConnectException known)
            return new MqttConnectException($"The broker at {address.Target} does not speak MQTT here. {FailureText.MessageOf(known)}", reasonCode: null, known) { IsRefusal = known.IsRefusal };
        if (isTimeout)
            return new MqttConnectException(DescribeTimeout(attempt.Stage), reasonCode: null, exception);
        if (exception is MqttProtocolException own && attempt.Stage == ConnectStage.Credentials)
            return Refusal($"No connection to {address.Target}: CONNECT can't be written. {FailureText.MessageOf(own)}", exception);
        if (exception is MqttProtocolException protocol)
            return new MqttConnectException($"The broker at {address.Target} gave no valid answer: {FailureText.MessageOf(protocol)}", protocol.ReasonCode, exception) { IsRefusal = protocol.ReasonCode == MqttReasonCode.BadAuthenticationMethod };
        return attempt.Stage switch
        {
            // The message of the application's exception may contain secrets, so it is not repeated.
            ConnectStage.Credentials => new MqttConnectException(
                $"No connection to {address.Target}: {nameof(MqttOptions.CredentialsProvider)} failed with {exception.GetType().Name}.", reasonCode: null, exception),
            ConnectStage.Network => new MqttConnectException(DescribeNetwork(exception), reasonCode: null, exception),
            ConnectStage.WebSocket => new MqttConnectException(
                $"The broker at {address.Target} refused the WebSocket: check its path and port; it may require TLS (wss://). {StreamFaults.Describe(exception)}", reasonCode: null, exception),
            _ => address.UsesTls ? ExplainTls(exception, attempt.Stage) : ExplainSilence(exception),
        };
    }

    /// <summary>Turns a refusing CONNACK into an exception.</summary>
    public MqttConnectException Refuse(ConnackPacket connack)
    {
        var code = connack.ReasonCode;
        var says = connack.Reason is { } reason ? $" It says: {MqttTopics.Show(reason)}." : "";
        var remedy = code switch
        {
            MqttReasonCode.BadUserNameOrPassword or MqttReasonCode.NotAuthorized =>
                $" Check {nameof(MqttOptions.UserName)} and {nameof(MqttOptions.Password)}, or {nameof(MqttOptions.CredentialsProvider)}.",
            MqttReasonCode.UnsupportedProtocolVersion => $" It does not support this {nameof(MqttOptions.Version)}.",
            MqttReasonCode.ClientIdentifierNotValid => $" Set another {nameof(MqttOptions.ClientId)}.",
            MqttReasonCode.UseAnotherServer or MqttReasonCode.ServerMoved when connack.ServerReference is { } server =>
                $" It names another server: {MqttTopics.Show(server)}. Set {nameof(MqttOptions.Server)} to it.",
            _ => "",
        };
        var text = string.Create(CultureInfo.InvariantCulture, $"The broker at {address.Target} refused the connection: {code} (0x{(int)code:X2}).{remedy}{says}");
        return new MqttConnectException(text, code) { IsRefusal = !ReasonTable.IsTransient((int)code) };
    }

    private static MqttConnectException Refusal(string text, Exception exception) => new(text, reasonCode: null, exception) { IsRefusal = true };

    private string DescribeTimeout(ConnectStage stage)
    {
        var limit = string.Create(CultureInfo.InvariantCulture, $"within {options.ConnectTimeout} ({nameof(MqttOptions.ConnectTimeout)})");
        return stage switch
        {
            ConnectStage.Credentials => $"No connection to {address.Target}: {nameof(MqttOptions.CredentialsProvider)} did not answer {limit}.",
            ConnectStage.Network => $"The broker at {address.Target} did not answer {limit}.",
            ConnectStage.Tls => $"The broker at {address.Target} did not finish the TLS handshake {limit}: it may speak no TLS on this port: check {nameof(MqttOptions.Server)}.",
            ConnectStage.WebSocket => $"The broker at {address.Target} did not finish the WebSocket handshake {limit}.",
            _ => $"The broker at {address.Target} accepted the connection and did not answer CONNECT {limit}.",
        };
    }

    private string DescribeNetwork(Exception exception)
    {
        var socketError = FailureText.Find<SocketException>(exception)?.SocketErrorCode;
        return socketError switch
        {
            SocketError.HostNotFound or SocketError.NoData or SocketError.TryAgain => $"The broker at {address.Target} was not found: the name is not known. Check {nameof(MqttOptions.Server)}.",
            SocketError.ConnectionRefused => $"The broker at {address.Target} can't be reached: the connection was refused, so nothing listens there. Start the broker, or set {nameof(MqttOptions.Server)} to its address.",
            SocketError.TimedOut => $"The broker at {address.Target} can't be reached: it does not answer. Check {nameof(MqttOptions.Server)} and the firewall.",
            _ => $"The broker at {address.Target} can't be reached: {StreamFaults.Describe(exception)}",
        };
    }

    private MqttConnectException ExplainSilence(Exception exception)
    {
        var how = exception is EndOfStreamException ? "closed the connection without an answer" : $"broke the connection without an answer ({StreamFaults.Describe(exception).TrimEnd('.')})";
        return new MqttConnectException(
            $"The broker at {address.Target} {how}: it may {Full}, require TLS on this port (mqtts:// or wss://), or not support this {nameof(MqttOptions.Version)}.", reasonCode: null, exception);
    }

    private MqttConnectException ExplainTls(Exception exception, ConnectStage stage)
    {
        var cause = StreamFaults.Describe(exception);
        if (Says(cause, "certificate required"))
            return Refusal($"The broker at {address.Target} requires a client certificate ({nameof(MqttOptions.ClientCertificates)}).", exception);
        if (Says(cause, "unknown ca") || Says(cause, "bad certificate") || Says(cause, "certificate expired") || Says(cause, "unsupported certificate"))
            return Refusal($"The broker at {address.Target} rejected the client certificate ({nameof(MqttOptions.ClientCertificates)}): {cause}", exception);
        if (stage == ConnectStage.Answer)
        {
            return new MqttConnectException(
                $"The broker at {address.Target} closed the connection right after the TLS handshake: it may require a client certificate ({nameof(MqttOptions.ClientCertificates)}).",
                reasonCode: null, exception);
        }

        var hint = exception is EndOfStreamException || Says(cause, "EOF") ? $"it may {Full}, or speak no TLS on this port; use mqtt:// or ws://, or the port for TLS"
            : FailureText.Find<AuthenticationException>(exception) is null || Says(cause, "frame")
            ? "it may speak no TLS on this port; use mqtt:// or ws://, or the port for TLS"
            : $"it may require a client certificate ({nameof(MqttOptions.ClientCertificates)}) or another version of TLS";
        return new MqttConnectException($"The TLS handshake with the broker at {address.Target} failed: {hint}. {cause}", reasonCode: null, exception);
    }

    private static bool Says(string text, string words) => text.Contains(words, StringComparison.OrdinalIgnoreCase);
}
