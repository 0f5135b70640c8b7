using System.Text;
using BatchKit.IntegrationTests.Pages;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>What a MUD's own consumer was given, in the order in which it was given it.</summary>
internal sealed class TelnetScreen
{
    private readonly Lock _lock = new();
    private readonly List<(long Handle, string Text)> _messages = [];

    public (long Handle, string Text)[] Messages
    {
        get
        {
            lock (_lock)
                return [.. _messages];
        }
    }

    public void Show(TelnetOutputMessage message) => Show(message.Handle, Encoding.UTF8.GetString(message.Bytes));

    public void Show(long handle, string text)
    {
        lock (_lock)
            _messages.Add((handle, text));
    }

    /// <summary>Waits until a text has arrived: the last one of a test, behind which nothing comes.</summary>
    public Task WaitForAsync(string text) => Until.TrueAsync(() => Array.Exists(Messages, message => message.Text == text));
}

/// <summary>A handler of BatchKit, of the MUD's own messages.</summary>
internal sealed class GameInput(TelnetScreen screen) : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            var text = Encoding.UTF8.GetString(message.Payload.Span);
            if (text == "refuse")
                message.Refuse("It says so.");
            screen.Show(message.Handle.Number, text);
        }

        return default;
    }
}
