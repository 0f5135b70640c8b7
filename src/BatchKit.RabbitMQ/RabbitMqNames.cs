using System.ComponentModel.DataAnnotations;
using System.Text;

namespace BatchKit.RabbitMQ;

/// <summary>The names and logins that RabbitMQ keeps as they are. A name that it changed or cut would be another process's name.</summary>
internal static class RabbitMqNames
{
    /// <summary>The most bytes of a name (AMQP 0-9-1, section 4.2.5.3).</summary>
    public const int MaxBytes = 255;

    // The names of the objects have up to 50 bytes more than the prefix.
    private const int MaxPrefixBytes = 200;

    private static readonly UTF8Encoding Strict = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    /// <summary>What is wrong with a prefix, as the end of a sentence; null when nothing is.</summary>
    public static string? FindFaultInPrefix(string prefix)
    {
        if (prefix.StartsWith("amq.", StringComparison.Ordinal))
            return "must not begin with 'amq.', which RabbitMQ keeps for itself.";
        return prefix.AsSpan().ContainsAny('\r', '\n') ? "must not contain line breaks, which RabbitMQ removes." : FindFault(prefix, MaxPrefixBytes);
    }

    /// <summary>What is wrong with a name or another text for the broker, as the end of a sentence; null when nothing is.</summary>
    public static string? FindFault(string text, int maxBytes)
    {
        try
        {
            var bytes = Strict.GetByteCount(text);
            return bytes > maxBytes ? $"has {bytes} UTF-8 bytes, more than {maxBytes}. Use a shorter one." : null;
        }
        catch (EncoderFallbackException)
        {
            return "is not valid Unicode: it has half of a surrogate pair. Remove it.";
        }
    }

    /// <summary>Checks a login. The results contain none of its texts.</summary>
    /// <param name="userName">The user name.</param>
    /// <param name="password">The password.</param>
    /// <param name="virtualHost">The virtual host.</param>
    /// <param name="owner">What stands before the names of the settings, such as <c>RabbitMq.</c>.</param>
    public static IEnumerable<ValidationResult> ValidateLogin(string? userName, string? password, string? virtualHost, string owner = "")
    {
        (string Setting, string? Fault)[] faults =
        [
            ("UserName", FindFaultInLogin(userName)),
            ("Password", FindFaultInLogin(password)),
            ("VirtualHost", virtualHost is null ? null : FindFault(virtualHost, MaxBytes)),
        ];
        return faults.Where(static each => each.Fault is not null).Select(each => new ValidationResult($"{owner}{each.Setting} {each.Fault}", [$"{owner}{each.Setting}"]));
    }

    // RFC 4616, section 2: NUL separates the user name from the password.
    private static string? FindFaultInLogin(string? text) =>
        text is null ? null : text.Contains('\0', StringComparison.Ordinal) ? "must not contain the character NUL, which ends it on the wire." : FindFault(text, int.MaxValue);
}
