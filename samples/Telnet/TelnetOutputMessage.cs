using System.Text;
using MassTransit;

namespace Telnet;

public sealed record TelnetOutputMessage(long Handle, byte[] Bytes);

internal sealed class TelnetConsumer : IConsumer<TelnetOutputMessage>
{
    public Task Consume(ConsumeContext<TelnetOutputMessage> context) =>
        Console.Out.WriteLineAsync($"{Encoding.UTF8.GetString(context.Message.Bytes).Split('\n').Length - 1} lines for {context.Message.Handle}");
}
