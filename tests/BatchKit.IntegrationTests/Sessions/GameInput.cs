using System.Globalization;
using System.Text;
using BatchKit.Sessions;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Sessions;

/// <summary>Hands what the gateways bring to the sessions.</summary>
internal sealed class GameInput(Func<SessionTransport> sessions) : IBatchTransport
{
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
        {
            foreach (var message in batch)
                Take(Encoding.UTF8.GetString(message.Payload.Span));
        }

        return default;
    }

    private void Take(string text)
    {
        var words = text.Split(' ', 2);
        var connection = OutputHandle.Connection(long.Parse(words[0], CultureInfo.InvariantCulture));
        if (words[1].Length == 0)
            sessions().Suspend(connection);
        else
            sessions().Receive(connection, Encoding.UTF8.GetBytes(words[1]));
    }
}
