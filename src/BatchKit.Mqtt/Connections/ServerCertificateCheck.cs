using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace BatchKit.Mqtt.Connections;

/// <summary>Decides on a broker's certificate, once, and remembers what was wrong with it: the exception that follows does not say.</summary>
internal sealed class ServerCertificateCheck(MqttOptions options, string serverName, TimeProvider timeProvider)
{
    /// <summary>What is wrong, to follow "its certificate"; null while nothing was found wrong.</summary>
    public string? Complaint { get; private set; }

    public bool Accept(object sender, X509Certificate? certificate, X509Chain? chain, SslPolicyErrors errors)
    {
        var isAccepted = options.ValidateServerCertificate is { } validate ? validate(sender, certificate, chain, errors) : errors == SslPolicyErrors.None;
        if (!isAccepted)
            Complaint = FindComplaint(certificate as X509Certificate2, chain, errors);
        return isAccepted;
    }

    private string FindComplaint(X509Certificate2? certificate, X509Chain? chain, SslPolicyErrors errors)
    {
        if (certificate is null)
            return "is missing";
        var complaints = new List<string>();
        var now = timeProvider.GetUtcNow().UtcDateTime;
        if (now > certificate.NotAfter.ToUniversalTime())
            complaints.Add($"expired at {certificate.NotAfter.ToUniversalTime():u}");
        if (now < certificate.NotBefore.ToUniversalTime())
            complaints.Add($"is not valid before {certificate.NotBefore.ToUniversalTime():u}");
        if (errors.HasFlag(SslPolicyErrors.RemoteCertificateNameMismatch))
            complaints.Add($"is for another name than {serverName} ({nameof(MqttOptions.TlsServerName)})");
        var statuses = chain?.ChainStatus.Aggregate(X509ChainStatusFlags.NoError, static (all, status) => all | status.Status) ?? X509ChainStatusFlags.NoError;
        var untrusted = statuses & (X509ChainStatusFlags.UntrustedRoot | X509ChainStatusFlags.PartialChain);
        if (untrusted != X509ChainStatusFlags.NoError)
            complaints.Add(certificate.Subject == certificate.Issuer ? "is self-signed" : "comes from an issuer that this system does not trust");
        var others = statuses & ~untrusted & ~X509ChainStatusFlags.NotTimeValid;
        if (others != X509ChainStatusFlags.NoError || (complaints.Count == 0 && statuses != X509ChainStatusFlags.NoError))
            complaints.Add($"failed the check of its chain: {statuses}");
        return complaints.Count > 0 ? string.Join(", ", complaints) : $"was refused by {nameof(MqttOptions.ValidateServerCertificate)}";
    }
}
