using System.ComponentModel.DataAnnotations;
using System.Globalization;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.Configuration;

namespace BatchKit.MassTransit;

/// <summary>Settings of the connection to RabbitMQ.</summary>
public sealed class MassTransitRabbitMqOptions : IValidatableObject
{
    /// <summary>The brokers of one cluster, each as <c>host</c> or <c>host:port</c>; they are tried in turn. Empty, the default, means <c>localhost</c>.</summary>
    [Required]
    public IList<string> Hosts { get; set; } = [];

    /// <summary>The port of hosts without a port of their own; 5672 by default. With TLS 5671 is usual.</summary>
    [Range(1, 65_535)]
    public int Port { get; set; } = 5672;

    /// <summary>The user name; <c>guest</c> by default. A broker accepts <c>guest</c> only from its own machine.</summary>
    [Required]
    public string UserName { get; set; } = "guest";

    /// <summary>The password; <c>guest</c> by default. It is never logged.</summary>
    [Required]
    public string Password { get; set; } = "guest";

    /// <summary>The virtual host; <c>/</c> by default.</summary>
    [Required]
    public string VirtualHost { get; set; } = "/";

    /// <summary>The heartbeat interval; 10 s by default. Both sides close a connection that was silent for twice as long.</summary>
    [TimeSpanRange("00:00:01", "00:10:00")]
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long an attempt to connect may take; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.100", "00:10:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The pause between attempts to connect; 500 ms by default. MassTransit adds 1 s of its own.</summary>
    [TimeSpanRange("00:00:00.001", "00:10:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(500);

    /// <summary>The name that the broker shows for the connection; null, the default, means the buffer's name.</summary>
    public string? ConnectionName { get; set; }

    /// <summary>Connects with TLS; brokers usually listen for it on port 5671. False, the default, sends passwords and output unencrypted.</summary>
    public bool UseTls { get; set; }

    /// <summary>The name that the broker's certificate must have; null, the default, means the host's name.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null, the default, leaves the decision to the system.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>A client certificate, for a broker that asks for one; none by default.</summary>
    public X509Certificate? ClientCertificate { get; set; }

    /// <summary>The first host and its port, for human-readable messages.</summary>
    internal (string Host, int Port) First => Hosts.Count == 0 ? ("localhost", Port) : Split(Hosts[0]);

    /// <summary>Reads the settings that a section has. Hosts of the section replace the ones before.</summary>
    internal static void Read(IConfiguration section, MassTransitRabbitMqOptions options)
    {
        if (section.GetSection(nameof(Hosts)) is var hosts && hosts.Exists())
            options.Hosts = hosts.Value is { Length: > 0 } host ? [host] : [];
        section.Bind(new MassTransitRabbitMqSection(options));
    }

    internal MassTransitRabbitMqOptions Copy()
    {
        var copy = (MassTransitRabbitMqOptions)MemberwiseClone();
        copy.Hosts = [.. Hosts];
        return copy;
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        // What is in the options of the bus is not named after them.
        const string Member = $"{nameof(MassTransitOptions.RabbitMq)}.{nameof(Hosts)}";
        if (Hosts is null)
            yield break;

        // The text does not repeat the entry, which may be a URI with a password.
        for (var index = 0; index < Hosts.Count; index++)
        {
            if (IsHost(Hosts[index]))
                continue;
            yield return new ValidationResult(
                $"{Member}[{index}] must be a host name or address, with a port or without, as in 'broker:5672'.", [Member]);
        }
    }

    internal (string Host, int Port) Split(string host)
    {
        var colon = host.LastIndexOf(':');
        if (colon < 0 || colon != host.IndexOf(':', StringComparison.Ordinal))
            return (host, Port);
        return (host[..colon], int.TryParse(host.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out var port) ? port : 0);
    }

    private bool IsHost(string? text)
    {
        if (string.IsNullOrEmpty(text))
            return false;
        var (host, port) = Split(text);
        return Uri.CheckHostName(host) != UriHostNameType.Unknown && port is >= 1 and <= 65_535;
    }
}

/// <summary>The settings that a section can have. Binding is generated for these alone, because it can't be generated for certificates and callbacks.</summary>
internal sealed class MassTransitRabbitMqSection
{
    private readonly MassTransitRabbitMqOptions _options;

    public MassTransitRabbitMqSection() : this(new()) { }

    internal MassTransitRabbitMqSection(MassTransitRabbitMqOptions options) => _options = options;

    public IList<string> Hosts { get => _options.Hosts; set => _options.Hosts = value; }
    public int Port { get => _options.Port; set => _options.Port = value; }
    public string UserName { get => _options.UserName; set => _options.UserName = value; }
    public string Password { get => _options.Password; set => _options.Password = value; }
    public string VirtualHost { get => _options.VirtualHost; set => _options.VirtualHost = value; }
    public TimeSpan Heartbeat { get => _options.Heartbeat; set => _options.Heartbeat = value; }
    public TimeSpan ConnectTimeout { get => _options.ConnectTimeout; set => _options.ConnectTimeout = value; }
    public TimeSpan ReconnectDelay { get => _options.ReconnectDelay; set => _options.ReconnectDelay = value; }
    public string? ConnectionName { get => _options.ConnectionName; set => _options.ConnectionName = value; }
    public bool UseTls { get => _options.UseTls; set => _options.UseTls = value; }
    public string? TlsServerName { get => _options.TlsServerName; set => _options.TlsServerName = value; }
}
