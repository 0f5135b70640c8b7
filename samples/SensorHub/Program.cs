using SensorHub.Hosting;

return await HubProgram.RunAsync(args);
