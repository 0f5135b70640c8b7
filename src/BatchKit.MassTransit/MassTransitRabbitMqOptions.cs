using System.ComponentModel.DataAnnotations;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.RabbitMQ;
using Microsoft.Extensions.Configuration;

namespace BatchKit.MassTransit;

/// <summary>Settings of the connection to RabbitMQ.</summary>
public sealed class MassTransitRabbitMqOptions : IValidatableObject
{
    private const int AmqpPort = 5672;
    private const int AmqpTlsPort = 5671;

    /// <summary>
    /// The brokers and the login as a URI, such as <c>amqp://user:password@broker-1,broker-2:5673/virtual-host</c>, or <c>amqps://</c> for TLS; null by default. Several hosts are tried in random
    /// order. Several URIs that differ only in their hosts may be given too, separated by commas.
    /// </summary>
    /// <remarks>
    /// It replaces <see cref="Hosts"/>, <see cref="Port"/> and <see cref="UseTls"/>. It also replaces <see cref="UserName"/>, <see cref="Password"/> and <see cref="VirtualHost"/> if it contains them. Escape special
    /// characters in these as in any URI. A host without a port has 5672, or 5671 with TLS. The string never appears in a log or an error.
    /// </remarks>
    public string? ConnectionString { get; set; }

    /// <summary>The brokers of one cluster, each as <c>host</c> or <c>host:port</c>; they are tried in random order. Empty, the default, means <c>localhost</c>.</summary>
    [Required]
    public IList<string> Hosts { get; set; } = [];

    /// <summary>The port of hosts that name none; 5672 by default. With TLS, 5671 is usual.</summary>
    [Range(1, 65_535)]
    public int Port { get; set; } = AmqpPort;

    /// <summary>The user name; <c>guest</c> by default. By default a broker accepts <c>guest</c> only from its own machine.</summary>
    [Required]
    public string UserName { get; set; } = "guest";

    /// <summary>The password; <c>guest</c> by default. It is never logged.</summary>
    [Required]
    public string Password { get; set; } = "guest";

    /// <summary>The virtual host; <c>/</c> by default.</summary>
    [Required]
    public string VirtualHost { get; set; } = "/";

    /// <summary>The heartbeat interval; 10 s by default. The broker closes a connection that was silent for about twice as long, the client after up to four times.</summary>
    [TimeSpanRange("00:00:01", "00:10:00")]
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The time limit of an attempt to connect; 5 s by default, divided among the addresses of the brokers.</summary>
    [TimeSpanRange("00:00:00.100", "00:10:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The pause between attempts to connect; 500 ms by default.</summary>
    [TimeSpanRange("00:00:00.001", "00:10:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(500);

    /// <summary>The name that the broker shows for the sender's connection, and with <c>receiver</c> behind it for the receiver's; null, the default, shows <c>BatchKit</c> and the buffer's name.</summary>
    public string? ConnectionName { get; set; }

    /// <summary>True connects with TLS; brokers usually listen for it on port 5671. False, the default, sends passwords and output unencrypted, unless the first host's port is 5671: this port always uses TLS.</summary>
    public bool UseTls { get; set; }

    /// <summary>The name that the broker's certificate must have; null, the default, requires the name of the host that it connects to.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null, the default, lets the operating system decide.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>The client certificate to offer to a broker that asks for one; none by default.</summary>
    public X509Certificate? ClientCertificate { get; set; }

    /// <summary>The first host and its port, for human-readable messages.</summary>
    internal (string Host, int Port) First => Hosts.Count == 0 ? ("localhost", Port) : Split(Hosts[0]);

    /// <summary>Reads the settings that a section has. Hosts in the section replace the earlier ones.</summary>
    internal static void Read(IConfiguration section, MassTransitRabbitMqOptions options)
    {
        options.Hosts = SectionReader.ReadList(section, nameof(Hosts), static host => host.Value ?? "") ?? options.Hosts;
        section.Bind(new MassTransitRabbitMqSection(options));
    }

    internal MassTransitRabbitMqOptions Copy()
    {
        var copy = (MassTransitRabbitMqOptions)MemberwiseClone();
        copy.Hosts = [.. Hosts];
        if (!RabbitMqAddress.TryParse(ConnectionString, out var address, out _))
            return copy;
        (copy.Hosts, copy.UseTls, copy.Port) = ([.. address.Hosts], address.UseTls, address.UseTls ? AmqpTlsPort : AmqpPort);
        (copy.UserName, copy.Password, copy.VirtualHost) = (address.UserName ?? UserName, address.Password ?? Password, address.VirtualHost ?? VirtualHost);
        // The copy's other settings now contain it.
        copy.ConnectionString = null;
        return copy;
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        // The validator does not put the name of the outer property in front of these names.
        const string Member = $"{nameof(MassTransitOptions.RabbitMq)}.{nameof(Hosts)}";
        const string StringMember = $"{nameof(MassTransitOptions.RabbitMq)}.{nameof(ConnectionString)}";
        RabbitMqAddress? address = null;
        if (ConnectionString is not null && !RabbitMqAddress.TryParse(ConnectionString, out address, out var fault))
            yield return new ValidationResult($"{StringMember} {fault}.", [StringMember]);
        const string Owner = $"{nameof(MassTransitOptions.RabbitMq)}.";
        foreach (var loginFault in RabbitMqNames.ValidateLogin(address?.UserName ?? UserName, address?.Password ?? Password, address?.VirtualHost ?? VirtualHost, Owner))
            yield return loginFault;
        foreach (var hostFault in RabbitMqEndpoint.Validate(Hosts ?? [], Member))
            yield return hostFault;
    }

    internal (string Host, int Port) Split(string host)
    {
        if (!RabbitMqEndpoint.TryParse(host, out var endpoint))
            return (host, Port);
        return (endpoint.Host, endpoint.Port == 0 ? Port : endpoint.Port);
    }
}

/// <summary>The settings that a section can have, besides the hosts. Binding is generated for these alone, because it can't be generated for certificates and callbacks.</summary>
internal sealed class MassTransitRabbitMqSection
{
    private readonly MassTransitRabbitMqOptions _options;

    public MassTransitRabbitMqSection() : this(new()) { }

    internal MassTransitRabbitMqSection(MassTransitRabbitMqOptions options) => _options = options;

    public string? ConnectionString { get => _options.ConnectionString; set => _options.ConnectionString = value; }
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
