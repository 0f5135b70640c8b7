using System.Text;
using BatchKit.IntegrationTests.MassTransit;
using BatchKit.RabbitMQ;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>Code that docs/existing-consumers.md shows: a MUD's own message, its loop, and the loop with BatchKit.</summary>
internal static class ExistingMud
{
    public static void Add(IServiceCollection services, Action<IBusRegistrationConfigurator> setup)
    {
        services.AddMassTransit(setup); // as before
        services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(batch => new(batch.Handle.Number, batch.Payload.ToArray()));
    }

    public static async Task ListBeforeAsync(IBus bus, long handle, IEnumerable<string> items)
    {
        foreach (var item in items)
            await bus.Publish(new TelnetOutputMessage(handle, Encoding.UTF8.GetBytes($"{item}\r\n")));
    }

    public static async Task ListAsync(IOutputBuffer output, long handle, IEnumerable<string> items)
    {
        await using (output.BeginBufferingScope(OutputHandle.Connection(handle)))
            foreach (var item in items)
                output.Write(OutputHandle.Connection(handle), $"{item}\r\n");
    }

    public static void AddOneByOne(IServiceCollection services) =>
        services.AddBatchKit().UseMassTransit<TelnetOutputMessage>((handle, message) => new(handle.Number, message.Payload.ToArray()));

    public static void AddSent(IServiceCollection services) =>
        services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(
            batch => new(batch.Handle.Number, batch.Payload.ToArray()),
            options => options.SendTo = _ => new Uri("queue:telnet-output"));

    public static void AddOnOneOfSeveralBuses(IServiceCollection services) =>
        services.AddBatchKit().UseMassTransit<IGameBus, TelnetOutputMessage>(batch => new(batch.Handle.Number, batch.Payload.ToArray()));

    public static void AddBody(IServiceCollection services) =>
        services.AddBatchKit().UseRabbitMq(
            batch => new RabbitMqMessage("telnet", $"player.{batch.Handle.Number}", batch.Payload) { ContentType = "text/plain" },
            options => options.Hosts = ["rabbit-1"]);

    public static void AddHandler(IServiceCollection services) =>
        services.AddMassTransit(setup => setup.AddMessageHandler<TelnetInputMessage, GameInput>(
            message => new ReceivedMessage(OutputHandle.Connection(message.Handle), message.Bytes)));
}

public sealed record TelnetOutputMessage(long Handle, byte[] Bytes);

public sealed record TelnetInputMessage(long Handle, byte[] Bytes);

public interface IGameBus : IBus;

/// <summary>The MUD's consumer, as it was.</summary>
internal sealed class TelnetOutputConsumer(TelnetScreen screen) : IConsumer<TelnetOutputMessage>
{
    public Task Consume(ConsumeContext<TelnetOutputMessage> context)
    {
        screen.Show(context.Message);
        return Task.CompletedTask;
    }
}
