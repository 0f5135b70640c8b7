using System;
using System.Collections.Generic;
using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0001: a loop over a broker's or SignalR's client that sends one message in each iteration.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class SendLoopAnalyzer : DiagnosticAnalyzer
{
    private const string ByScope = "Written to an IOutputBuffer inside a buffering scope, they leave as one message";

    private static readonly Send[] Sends =
    [
        new("MassTransit.IPublishEndpoint", ["Publish"], $"{ByScope} (package BatchKit.MassTransit)"),
        new("RabbitMQ.Client.IChannel", ["BasicPublishAsync"], $"{ByScope} (package BatchKit.RabbitMQ)"),
        new("MQTTnet.IMqttClient", ["PublishAsync", "PublishBinaryAsync", "PublishStringAsync", "PublishSequenceAsync"], "PublishManyAsync sends all of them in one write (package BatchKit.MQTTnet)"),
        new("MQTTnet.Client.IMqttClient", ["PublishAsync", "PublishBinaryAsync", "PublishStringAsync"], $"{ByScope} (package BatchKit.Mqtt)"),
        new("MQTTnet.Server.MqttServer", ["InjectApplicationMessage"], "InjectManyAsync injects all of them at once (package BatchKit.MQTTnet)"),
        new("Microsoft.AspNetCore.SignalR.IClientProxy", ["SendAsync", "SendCoreAsync"], "Inside a buffering scope, they leave as one message (package BatchKit.SignalR)", isHeldByScopes: true),
        new("NATS.Client.JetStream.INatsJSContext", ["PublishAsync", "TryPublishAsync"], $"{ByScope} (package BatchKit.Nats)"),
    ];

    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Rules.SendLoop];

    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            var known = (from send in Sends
                         let client = start.Compilation.GetTypeByMetadataName(send.Client)
                         where client is not null
                         from method in send.Methods
                         select (method, call: (client, send))).GroupBy(known => known.method, StringComparer.Ordinal)
                .ToDictionary(group => group.Key, group => group.Select(known => known.call).ToArray(), StringComparer.Ordinal);
            var buffers = BufferTypes.TryGet(start.Compilation);
            if (known.Count > 0)
                start.RegisterOperationAction(operation => Analyze(operation, known, buffers), OperationKind.Invocation);
        });
    }

    private static void Analyze(OperationAnalysisContext context, Dictionary<string, (INamedTypeSymbol Client, Send Send)[]> known, BufferTypes? buffers)
    {
        var call = (IInvocationOperation)context.Operation;
        if (!known.TryGetValue(call.TargetMethod.Name, out var sends) || call.TargetMethod.ReceiverType() is not { } receiver)
            return;
        var send = sends.FirstOrDefault(known => receiver.IsOrImplements(known.Client)).Send;
        if (send is null || BulkLoop.Around(call, alsoInTasks: true) is not { } loop || (send.IsHeldByScopes && buffers is not null && loop.IsInScope()))
            return;

        var write = buffers is null ? null : WriteLoopAnalyzer.FindUnscopedWrite(loop, buffers, call);
        context.ReportDiagnostic(Diagnostic.Create(Rules.SendLoop, call.NameLocation(), write?.Locations, properties: null, call.TargetMethod.Name, send.Advice));
    }

    /// <summary>Methods of a client that send one message, and what to do instead.</summary>
    private sealed class Send(string client, string[] methods, string advice, bool isHeldByScopes = false)
    {
        public string Client => client;

        public string[] Methods => methods;

        public string Advice => advice;

        /// <summary>True when a scope around the loop is all that it needs.</summary>
        public bool IsHeldByScopes => isHeldByScopes;
    }
}
