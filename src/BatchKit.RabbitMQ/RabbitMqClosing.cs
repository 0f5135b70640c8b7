using BatchKit.Diagnostics;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.RabbitMQ;

/// <summary>The broker's reasons for closing a channel.</summary>
internal static class RabbitMqClosing
{
    private const ushort NotFound = 404;
    private const ushort AccessRefused = 403;
    private const ushort PreconditionFailed = 406;

    // What the broker calls the exchange whose name is empty.
    private const string DefaultExchange = "amq.default";

    // The broker ends a text of more than 255 bytes with it.
    private const string Cut = "...";

    /// <summary>Returns the broker's reason when it closed the channel because an exchange does not exist, or may not be written to; null when it did not.</summary>
    /// <remarks>Everything that is published on the channel fails with the same reason, but the reason names the exchange.</remarks>
    public static string? FindExchangeRefusal(Exception exception, string exchange, out bool isForbidden)
    {
        var refused = FindReason(exception, AccessRefused, $"access to exchange '{(exchange.Length == 0 ? DefaultExchange : exchange)}' ");
        isForbidden = refused is not null;
        return refused ?? FindReason(exception, NotFound, $"no exchange '{exchange}' ");
    }

    /// <summary>Returns the broker's reason when it closed the channel because messages with that routing key may not be written to a topic exchange; null when it did not.</summary>
    public static string? FindTopicRefusal(Exception exception, string exchange, string routingKey) =>
        FindReason(exception, AccessRefused, $"access to topic '{routingKey}' in exchange '{exchange}' ");

    /// <summary>Says why a connection or channel ended, without a full stop. The client's own text for a broker that is silent is the same as for one that closes.</summary>
    public static string Describe(ShutdownEventArgs reason) => reason.Exception is { } cause && FailureText.MessageOf(cause).Contains("eartbeat", StringComparison.Ordinal)
        ? "The broker was silent for several heartbeats (Heartbeat)"
        : reason.ReplyText;

    /// <summary>Says in a sentence what the broker forbids, or has with other arguments, and what to change, or that the connection ended; null when it closed the channel for another reason.</summary>
    public static string? Explain(Exception exception) => FailureText.Find<OperationInterruptedException>(exception)?.ShutdownReason switch
    {
        { ReplyCode: AccessRefused, ReplyText: var text } => $"{text.TrimEnd('.')}. Give the user this right.",
        { ReplyCode: PreconditionFailed, ReplyText: var text } when text.Contains("inequivalent arg", StringComparison.Ordinal) =>
            $"{text.TrimEnd('.')}. Delete what has other arguments, or set the options to match it.",
        // The client's own text has a stack trace.
        { Initiator: ShutdownInitiator.Library } reason => $"The connection ended: {Describe(reason).TrimEnd('.')}.",
        _ => null,
    };

    /// <summary>True when the broker closed the channel over a message that it will never take, such as one above its <c>max_message_size</c>.</summary>
    public static bool IsUnfit(Exception? exception) => exception is OperationInterruptedException { ShutdownReason.ReplyCode: PreconditionFailed };

    /// <summary>Returns the broker's reason when it closed the channel over a message of that size, as above its <c>max_message_size</c>; null when it did not.</summary>
    /// <remarks>Everything that is published on the channel fails with the same reason, but the reason names the size of the message that it closed the channel for.</remarks>
    public static string? FindSizeRefusal(Exception exception, int messageBytes) => FindReason(exception, PreconditionFailed, $"message size {messageBytes} ");

    private static string? FindReason(Exception exception, ushort code, string text) => FailureText.CausesOf(exception)
        .OfType<OperationInterruptedException>()
        .Where(cause => cause.ShutdownReason is { } reason && reason.ReplyCode == code && Says(reason.ReplyText, text))
        .Select(static cause => cause.ShutdownReason!.ReplyText)
        .FirstOrDefault();

    private static bool Says(string reply, string text)
    {
        if (reply.Contains(text, StringComparison.Ordinal))
            return true;
        // The name in the text may be cut, within a character too.
        var start = text[..(text.IndexOf('\'', StringComparison.Ordinal) + 1)];
        return start.Length > 0 && reply.EndsWith(Cut, StringComparison.Ordinal) && reply.IndexOf(start, StringComparison.Ordinal) is >= 0 and var at
            && text.StartsWith(reply[at..^Cut.Length].TrimEnd('\uFFFD'), StringComparison.Ordinal);
    }
}
