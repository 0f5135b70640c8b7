using System.ComponentModel.DataAnnotations;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Text.RegularExpressions;

namespace BatchKit.RabbitMQ;

/// <summary>The content of a connection string, which is an AMQP URI with one or more hosts, or several such URIs.</summary>
/// <param name="UseTls">True for <c>amqps://</c>.</param>
/// <param name="UserName">The user; null when the string has none.</param>
/// <param name="Password">The password; null when the string has none.</param>
/// <param name="VirtualHost">The virtual host; null when the string has none.</param>
/// <param name="Hosts">The hosts, each with a port or without.</param>
internal sealed partial record RabbitMqAddress(bool UseTls, string? UserName, string? Password, string? VirtualHost, IReadOnlyList<string> Hosts)
{
    private const string Example = "as in 'amqps://user:password@broker-1,broker-2:5673/virtual-host'";

    /// <summary>Reads a connection string.</summary>
    /// <param name="text">The string.</param>
    /// <param name="address">The content of the string.</param>
    /// <param name="fault">What is wrong, as the end of a sentence. It does not repeat the string, which may contain a password.</param>
    public static bool TryParse(string? text, [NotNullWhen(true)] out RabbitMqAddress? address, [NotNullWhen(false)] out string? fault)
    {
        address = null;
        fault = $"must be an AMQP URI, {Example}";
        foreach (var part in UriBorder().Split(text?.Trim() ?? string.Empty))
        {
            if (Read(part, out fault) is not { } next)
                return false;
            if (address is not null && next with { Hosts = address.Hosts } != address)
            {
                fault = "has several URIs, which must agree on scheme, user, password and virtual host";
                return false;
            }

            address = next with { Hosts = [.. address?.Hosts ?? [], .. next.Hosts] };
        }

        return address is not null;
    }

    private static RabbitMqAddress? Read(string text, out string fault)
    {
        fault = $"must be an AMQP URI, {Example}";
        if (UriParts().Match(text) is not { Success: true, Groups: var parts })
            return null;
        if (parts["query"].Success)
        {
            fault = "must have no parameters behind a question mark: set the other properties of the options instead";
            return null;
        }

        var hosts = parts["hosts"].Value.Split(',', StringSplitOptions.TrimEntries);
        for (var index = 0; index < hosts.Length; index++)
        {
            if (RabbitMqEndpoint.TryParse(hosts[index], out _))
                continue;
            fault = $"must name hosts, with a port or without; host {index + 1} is neither, {Example}";
            return null;
        }

        return new RabbitMqAddress(parts["tls"].Success, Text(parts["user"]), Text(parts["password"]), Text(parts["path"]), hosts);
    }

    private static string? Text(Group part) => part.Length == 0 ? null : Uri.UnescapeDataString(part.Value);

    // No pattern of these takes more than quadratic time, and a limit would refuse a good text on a machine that stands still for a second.
    [GeneratedRegex("[,;\\s]+(?=amqps?://)", RegexOptions.IgnoreCase | RegexOptions.CultureInvariant, matchTimeoutMilliseconds: Timeout.Infinite)]
    private static partial Regex UriBorder();

    // A password may contain an @, so the last @ ends it.
    [GeneratedRegex("^amqp(?<tls>s)?://((?<user>[^:@/]*)(:(?<password>[^/]*))?@)?(?<hosts>[^/?@]+)(/(?<path>[^?/]*))?(?<query>\\?.+)?$",
        RegexOptions.IgnoreCase | RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: Timeout.Infinite)]
    private static partial Regex UriParts();
}

/// <summary>A broker's host and port, as options and connection strings contain them.</summary>
/// <param name="Host">A name or an address.</param>
/// <param name="Port">The port; 0 means the protocol's default port.</param>
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

    /// <summary>Checks hosts. The results do not repeat an entry, which may be a URI with a password.</summary>
    public static IEnumerable<ValidationResult> Validate(IList<string> hosts, string member) =>
        from index in Enumerable.Range(0, hosts.Count)
        where !TryParse(hosts[index], out _)
        select new ValidationResult($"{member}[{index}] must be a host name or address, with a port or without, as in 'broker:5672'.", [member]);

    public RabbitMqEndpoint WithPort(bool tls) => Port != 0 ? this : this with { Port = tls ? AmqpTlsPort : AmqpPort };

    public override string ToString() => $"{Host}:{Port}";
}
