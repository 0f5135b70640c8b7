using System.Globalization;

namespace BatchKit.RabbitMQ;

/// <summary>One broker's host and port, as the options name them.</summary>
/// <param name="Host">A name or an address.</param>
/// <param name="Port">Zero for the protocol's own.</param>
internal readonly record struct RabbitMqEndpoint(string Host, int Port)
{
    private const int AmqpPort = 5672;
    private const int AmqpTlsPort = 5671;

    public static bool TryParse(string? text, out RabbitMqEndpoint endpoint)
    {
        endpoint = default;
        if (string.IsNullOrWhiteSpace(text))
            return false;
        var host = text;
        var port = 0;
        var colon = text.LastIndexOf(':');
        var isBareAddress = colon != text.IndexOf(':', StringComparison.Ordinal) && !text.Contains("]:", StringComparison.Ordinal);
        if (colon >= 0 && !isBareAddress)
        {
            host = text[..colon];
            if (!int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out port) || port is < 1 or > 65535)
                return false;
        }

        host = host.Trim('[', ']');
        if (Uri.CheckHostName(host) == UriHostNameType.Unknown)
            return false;
        endpoint = new RabbitMqEndpoint(host, port);
        return true;
    }

    public RabbitMqEndpoint WithPort(bool tls) => Port != 0 ? this : this with { Port = tls ? AmqpTlsPort : AmqpPort };

    public override string ToString() => $"{Host}:{Port}";
}
