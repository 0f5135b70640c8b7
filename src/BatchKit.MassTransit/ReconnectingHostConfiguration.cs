using System.IO;
using MassTransit;
using MassTransit.RabbitMqTransport.Configuration;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.MassTransit;

/// <summary>MassTransit's RabbitMQ host with a steady pause between tries to connect: its own grows from 3 to 30 s and has no setting.</summary>
internal sealed class ReconnectingHostConfiguration(
    IRabbitMqBusConfiguration busConfiguration, IRabbitMqTopologyConfiguration topologyConfiguration, TimeSpan reconnectDelay)
    : RabbitMqHostConfiguration(busConfiguration, topologyConfiguration)
{
    public override IRetryPolicy ReceiveTransportRetryPolicy { get; } = Retry.CreatePolicy(policy =>
    {
        policy.Handle<ConnectionException>();
        policy.Handle<AlreadyClosedException>();
        policy.Handle<EndOfStreamException>();
        policy.Handle<OperationInterruptedException>();
        // An array of its pauses; when they are used up MassTransit asks for the next ones.
        policy.Interval(retryCount: 64, reconnectDelay);
    });

    // A send that failed is the dispatch's to send again, when its pause is over; MassTransit would sleep in it.
    public override IRetryPolicy SendTransportRetryPolicy { get; } = Retry.None;
}
